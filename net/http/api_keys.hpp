// API keys: a request shows one as "Authorization: Bearer KEY" or "X-Api-Key: KEY". Only their SHA-256 is
// kept, and a comparison takes the same time whatever is shown (CVE-2025-59425). Any thread, once made.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"

namespace orcd::net {

/// What a key lets do. An operator may all that others may, and what concerns all clients besides.
enum class key_role { inference, operations };
/// As the key file has it: "inference" or "operator".
[[nodiscard]] std::string_view to_string(key_role role) noexcept;

/// The key that a request has shown. All members are empty where the worker has no keys. A key without a name
/// in the file is a tenant of its own.
struct key_owner {
  std::string key_id;  ///< a digest of the key: the same after a restart, and the key cannot be found from it
  std::string tenant;  ///< the key's name, which several keys may share; else as key_id
  std::string label;   ///< for the log: the key's name, or its line in the file
  key_role role = key_role::inference;
};

/// A job's id within the worker: with keys it begins with the key's id, so that no key's job meets or cancels
/// another's.
[[nodiscard]] std::string scoped_job_id(const key_owner& owner, const std::string& job_id);
/// The salt under which a job shares prefixes: with its tenant's jobs that name the same salt or, where it
/// names none, with the jobs of its own key.
[[nodiscard]] std::string scoped_salt(const key_owner& owner, const std::string& salt);

class api_keys {
 public:
  static constexpr std::size_t count_max = 1'024;
  static constexpr std::size_t bytes_max = 512;
  static constexpr std::size_t name_bytes_max = 64;

  /// No keys: every request is served.
  api_keys() = default;

  /// Reads a key file: a line is "KEY [NAME] [role=inference|role=operator]", names of letters, digits and
  /// ._- alone; blank lines and lines that begin with # are skipped. Errors (invalid_request) name the line,
  /// never the key: no key at all, too many keys, one given twice, too long, characters beyond printable
  /// ASCII, an invalid name or role.
  [[nodiscard]] static engine::result<api_keys> parse(std::string_view text);

  [[nodiscard]] bool empty() const noexcept { return keys_.empty(); }
  /// Whether one of them is an operator's.
  [[nodiscard]] bool has_operator() const noexcept;
  /// The owner of the key in the value of an Authorization header or else of an X-Api-Key header; nullopt if
  /// neither shows one of the keys. Where there are no keys, every request has the empty owner.
  [[nodiscard]] std::optional<key_owner> owner_of(std::string_view authorization,
                                                  std::string_view x_api_key = {}) const;
  /// The owner of a request that another engine let in, and whose key is none of these: a tenant of its own,
  /// under the id that its key had there, and no operator.
  [[nodiscard]] static key_owner owner_elsewhere(std::string_view authorization,
                                                 std::string_view x_api_key = {});

 private:
  struct key {
    std::string digest;  ///< hexadecimal
    key_owner owner;
  };
  [[nodiscard]] const key* find(std::string_view shown) const;

  std::vector<key> keys_;
};

}  // namespace orcd::net
