// The keys of the objects that a JSON reader has open, to find one that is given twice. Flat: the bytes of
// all keys are in one string, and an object's keys are sorted once, when it ends. Sorted by hash and then by
// bytes, so that a client that chooses keys with equal hashes cannot make it slow. Pure. Private to net/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orcd::net {

class open_keys {
 public:
  void open() { objects_.push_back({keys_.size(), bytes_.size()}); }
  /// A key of the innermost object.
  void add(std::string_view name);
  /// Ends the innermost object; false when one of its keys is given twice, and then it stays open.
  [[nodiscard]] bool close();

  /// How many objects are open.
  [[nodiscard]] std::size_t depth() const noexcept { return objects_.size(); }
  /// Of the open objects, the repeated key whose second mention comes first in the text.
  [[nodiscard]] std::optional<std::string_view> first_repeated();

 private:
  struct key {
    std::size_t hash;
    std::size_t begin;  ///< in `bytes_`
    std::size_t length;
    std::size_t position;  ///< among all keys that are open, in the order of the text
  };
  struct object {
    std::size_t first_key;
    std::size_t first_byte;
  };
  [[nodiscard]] std::string_view text_of(const key& k) const {
    return std::string_view(bytes_).substr(k.begin, k.length);
  }
  /// The first key that repeats another one of these, which are all of one object.
  [[nodiscard]] std::optional<key> find_repeated(std::size_t first, std::size_t end);

  std::string bytes_;
  std::vector<key> keys_;        ///< of all open objects, outermost first
  std::vector<object> objects_;  ///< those that are open, outermost first
};

}  // namespace orcd::net
