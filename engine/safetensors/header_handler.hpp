// Takes the events of a JSON parser over a safetensors header and collects the tensors: no document is built,
// so that memory is that of the tensors alone. Private to safetensors_file.
#pragma once

#include <boost/json/basic_parser.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/safetensors/safetensor.hpp"

namespace orcd::engine {

/// `safetensor::offset` is relative to the data here, and the end is `offset + bytes`.
class header_handler {
 public:
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  explicit header_handler(const safetensors_limits& limits) : limits_(limits) {}

  std::vector<safetensor> tensors;
  std::string problem;  ///< why an event was refused

  using code = boost::system::error_code;
  bool on_document_begin(code&) { return true; }
  bool on_document_end(code&) { return true; }
  bool on_object_begin(code& ec);
  bool on_object_end(std::size_t, code& ec);
  bool on_array_begin(code& ec);
  bool on_array_end(std::size_t, code& ec);
  bool on_key_part(std::string_view text, std::size_t, code& ec) { return add_text(text, ec); }
  bool on_key(std::string_view text, std::size_t, code& ec);
  bool on_string_part(std::string_view text, std::size_t, code& ec) { return add_text(text, ec); }
  bool on_string(std::string_view text, std::size_t, code& ec);
  bool on_number_part(std::string_view, code&) { return true; }
  bool on_int64(std::int64_t value, std::string_view, code& ec);
  bool on_uint64(std::uint64_t value, std::string_view, code& ec) { return add_number(value, ec); }
  bool on_double(double, std::string_view, code& ec) { return refuse("has a number with a fraction", ec); }
  bool on_bool(bool, code& ec) { return refuse("has true or false as a value", ec); }
  bool on_null(code& ec) { return refuse("has null as a value", ec); }
  bool on_comment_part(std::string_view, code&) { return true; }
  bool on_comment(std::string_view, code&) { return true; }

 private:
  enum class place { outside, top, entry, metadata, shape, offsets };
  enum class field { none, dtype, shape, offsets };

  bool refuse(std::string_view what, code& ec);
  bool add_text(std::string_view text, code& ec);
  bool add_number(std::uint64_t value, code& ec);
  bool begin_field(code& ec);
  bool end_entry(code& ec);

  safetensors_limits limits_;
  place place_ = place::outside;
  field field_ = field::none;
  std::string text_;  ///< of the key or string that is being read; its first bytes where nobody needs it
  safetensor current_;
  bool has_type_ = false;
  bool has_shape_ = false;
  std::vector<std::uint64_t> offsets_;
  bool has_offsets_ = false;
  bool has_metadata_ = false;
};

}  // namespace orcd::engine
