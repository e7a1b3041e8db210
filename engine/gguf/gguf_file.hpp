// A GGUF v3 model, mapped and validated once; everything after open() is lookups in bounds-checked
// views. Immutable and safe to read from any thread. Source: M0-W-1200..1222, WORK-3030..3032.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/gguf/gguf_values.hpp"
#include "engine/gguf/tensor_view.hpp"

namespace orcd::engine {

struct gguf_contents;

class gguf_file {
 public:
  /// Opens a model by location: a path, `file:/path` or `file:///path`, or `shm:/name` (a POSIX
  /// shared-memory object); of a folder, the model in it (model_folder.hpp). Split models open by their first
  /// part; siblings are found beside it. A GGUF may lie behind the header of a qmodel.tensors.
  /// Errors (model_load_failed) name the file, the field, the offset and the limit.
  [[nodiscard]] static result<gguf_file> open(std::string_view location, const gguf_limits& = {});

  /// Parses one complete image in memory that outlives the result (tests, fuzzing).
  [[nodiscard]] static result<gguf_file> parse(std::span<const std::byte> image, std::string name,
                                               const gguf_limits& = {});

  gguf_file(gguf_file&&) noexcept;
  gguf_file& operator=(gguf_file&&) noexcept;
  ~gguf_file();

  /// An error when the file was truncated or modified since open(). Reading a page that the file no longer
  /// has gives zeros instead of SIGBUS, so that a caller that copies or keeps using the weights must check
  /// this after it has read them (mapped_file.hpp, file_watch.hpp). Cheap: a few system calls; any thread.
  [[nodiscard]] result<void> check_intact() const;

  /// Which files these are, and as of when: the same text for the same files of one host, by whatever names,
  /// until they are written to. Empty for an image in memory.
  [[nodiscard]] std::string identity() const;
  [[nodiscard]] std::string_view location() const noexcept;   ///< as given, or of the file in the folder
  [[nodiscard]] std::uint64_t file_bytes() const noexcept;    ///< all parts
  [[nodiscard]] std::uint64_t tensor_bytes() const noexcept;  ///< payloads, padding excluded
  [[nodiscard]] std::uint32_t version() const noexcept;
  [[nodiscard]] std::uint32_t alignment() const noexcept;
  /// What the header of a qmodel.tensors says: 1 BitNet, 2 Llama; 0 = there is no such header.
  [[nodiscard]] std::uint32_t header_architecture() const noexcept;
  [[nodiscard]] std::span<const gguf_entry> entries() const noexcept;
  [[nodiscard]] std::span<const tensor_view> tensors() const noexcept;
  [[nodiscard]] std::span<const std::span<const std::byte>> parts() const noexcept;  ///< GGUF images

  /// nullptr when absent.
  [[nodiscard]] const gguf_value* find(std::string_view key) const noexcept;
  [[nodiscard]] const tensor_view* find_tensor(std::string_view name) const noexcept;

  /// Typed getters: the value, or the fallback when the key is absent; an error when the key exists with a
  /// type or a value that does not fit. Never a silent conversion.
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

  /// A label for the mixture of formats: from general.file_type, else the block type with the most values.
  [[nodiscard]] std::string quant_kind() const;

 private:
  explicit gguf_file(std::unique_ptr<gguf_contents>) noexcept;
  std::unique_ptr<gguf_contents> contents_;
};

}  // namespace orcd::engine
