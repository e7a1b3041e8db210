// A GGUF v3 model, mapped and validated once; everything after open() is lookups in bounds-checked
// views. Immutable and safe to read from any thread. Source: M0-W-1200..1222, WORK-3030..3032.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/gguf/tensor_view.hpp"

namespace orcd::engine {

/// GGUF metadata value types, by file id.
enum class gguf_value_type : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// An array as it lies in the file. Elements are unaligned: read them through the typed getters.
struct gguf_array {
  gguf_value_type element = gguf_value_type::u8;
  std::uint64_t count = 0;
  std::span<const std::byte> payload;
};

/// One scalar, string or array. Integers are widened; the declared type is kept beside them.
struct gguf_value {
  gguf_value_type type = gguf_value_type::u8;
  std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, gguf_array> value;
};

struct gguf_entry {
  std::string_view key;
  gguf_value value;
};

/// Caps that hold before anything is allocated; a file over one is refused with the cap in the message.
struct gguf_limits {
  std::uint64_t tensors = 10'000;
  std::uint64_t entries = 4'096;
  std::uint64_t string_bytes = 64ull << 20;
  std::uint64_t name_bytes = 63;
  std::uint64_t key_bytes = 65'535;
};

class gguf_file {
 public:
  /// Opens a model by location: a path, `file:/path` or `file:///path`, or `shm:/name` (a POSIX
  /// shared-memory object). Split models open by their first part; siblings are found beside it.
  /// Errors (model_load_failed) name the file, the field, the offset and the limit.
  [[nodiscard]] static result<gguf_file> open(std::string_view location, const gguf_limits& = {});

  /// Parses one complete image in memory that outlives the result (tests, fuzzing).
  [[nodiscard]] static result<gguf_file> parse(std::span<const std::byte> image, std::string name,
                                               const gguf_limits& = {});

  gguf_file(gguf_file&&) noexcept;
  gguf_file& operator=(gguf_file&&) noexcept;
  ~gguf_file();

  /// An error when the file was truncated or modified since open(). Reading a page that the file no
  /// longer has gives zeros, not SIGBUS, so whoever copies or keeps using the weights asks this after
  /// it has read them (mapped_file.hpp). Cheap: one system call per part; any thread.
  [[nodiscard]] result<void> check_intact() const;

  [[nodiscard]] std::string_view location() const noexcept;   ///< as given, for messages
  [[nodiscard]] std::uint64_t file_bytes() const noexcept;    ///< all parts
  [[nodiscard]] std::uint64_t tensor_bytes() const noexcept;  ///< payloads, padding excluded
  [[nodiscard]] std::uint32_t version() const noexcept;
  [[nodiscard]] std::uint32_t alignment() const noexcept;
  [[nodiscard]] std::span<const gguf_entry> entries() const noexcept;
  [[nodiscard]] std::span<const tensor_view> tensors() const noexcept;
  [[nodiscard]] std::span<const std::span<const std::byte>> parts() const noexcept;  ///< mapped images

  /// nullptr when absent.
  [[nodiscard]] const gguf_value* find(std::string_view key) const noexcept;
  [[nodiscard]] const tensor_view* find_tensor(std::string_view name) const noexcept;

  /// Typed getters: the value, or the fallback when the key is absent; an error when the key is
  /// there with a type or a value that does not fit. Never a silent conversion.
  [[nodiscard]] result<std::uint64_t> get_unsigned(std::string_view key, std::uint64_t fallback) const;
  [[nodiscard]] result<double> get_float(std::string_view key, double fallback) const;
  [[nodiscard]] result<bool> get_bool(std::string_view key, bool fallback) const;
  [[nodiscard]] result<std::string_view> get_string(std::string_view key, std::string_view fallback) const;
  /// The same, but an absent key is an error.
  [[nodiscard]] result<std::uint64_t> require_unsigned(std::string_view key) const;
  [[nodiscard]] result<std::string_view> require_string(std::string_view key) const;

  /// Arrays, copied out with their element type checked. Absent key: empty vector.
  [[nodiscard]] result<std::vector<std::string_view>> get_strings(std::string_view key) const;
  [[nodiscard]] result<std::vector<float>> get_floats(std::string_view key) const;  ///< f32 or f64
  /// Any integer type or bool.
  [[nodiscard]] result<std::vector<std::int64_t>> get_integers(std::string_view key) const;

  /// A label for the mixture: from general.file_type, else the most frequent block type by bytes.
  [[nodiscard]] std::string quant_kind() const;

 private:
  struct state;
  explicit gguf_file(std::unique_ptr<state>) noexcept;
  std::unique_ptr<state> state_;
};

}  // namespace orcd::engine
