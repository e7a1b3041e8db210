#include "engine/safetensors/header_handler.hpp"

#include <boost/json/error.hpp>
#include <utility>

#include "engine/gguf/byte_cursor.hpp"

namespace orcd::engine {

bool header_handler::refuse(std::string_view what, code& ec) {
  problem = current_.name.empty() ? "the header" : "tensor " + in_quotes(current_.name);
  problem.append(" ").append(what);
  ec = boost::json::error::exception;
  return false;
}

bool header_handler::add_text(std::string_view text, code& ec) {
  if (place_ == place::metadata) return true;
  if (text_.size() + text.size() > limits_.name_bytes) {
    return refuse("has a text of more than " + std::to_string(limits_.name_bytes) + " bytes", ec);
  }
  text_ += text;
  return true;
}

bool header_handler::on_object_begin(code& ec) {
  if (place_ == place::outside) {
    place_ = place::top;
    return true;
  }
  if (place_ != place::top) return refuse("has an object where none belongs", ec);
  if (std::exchange(text_, {}) == "__metadata__") {
    if (std::exchange(has_metadata_, true)) return refuse("has __metadata__ twice", ec);
    place_ = place::metadata;
    return true;
  }
  place_ = place::entry;
  return true;
}

bool header_handler::on_object_end(std::size_t, code& ec) {
  if (place_ == place::entry) return end_entry(ec);
  place_ = place_ == place::metadata ? place::top : place::outside;
  return true;
}

bool header_handler::on_array_begin(code& ec) {
  if (place_ != place::entry || (field_ != field::shape && field_ != field::offsets)) {
    return refuse("has an array where none belongs", ec);
  }
  place_ = field_ == field::shape ? place::shape : place::offsets;
  return true;
}

bool header_handler::on_array_end(std::size_t, code&) {
  place_ = place::entry;
  field_ = field::none;
  return true;
}

bool header_handler::on_key(std::string_view text, std::size_t, code& ec) {
  if (!add_text(text, ec)) return false;
  if (place_ == place::metadata) return true;
  if (place_ == place::entry) return begin_field(ec);
  // The name stays in text_ until its object begins; what else follows it is refused.
  if (text_ == "__metadata__") return true;
  if (text_.empty()) return refuse("has a tensor without a name", ec);
  if (tensors.size() >= limits_.tensors) {
    return refuse("has more than " + std::to_string(limits_.tensors) + " tensors", ec);
  }
  current_ = {};
  current_.name = text_;
  has_type_ = has_shape_ = has_offsets_ = false;
  offsets_.clear();
  return true;
}

bool header_handler::begin_field(code& ec) {
  const std::string name = std::exchange(text_, {});
  bool* seen = nullptr;
  if (name == "dtype") {
    field_ = field::dtype;
    seen = &has_type_;
  } else if (name == "shape") {
    field_ = field::shape;
    seen = &has_shape_;
  } else if (name == "data_offsets") {
    field_ = field::offsets;
    seen = &has_offsets_;
  } else {
    return refuse("has the unknown field " + in_quotes(name), ec);
  }
  if (std::exchange(*seen, true)) return refuse("has " + name + " twice", ec);
  return true;
}

bool header_handler::on_string(std::string_view text, std::size_t, code& ec) {
  if (!add_text(text, ec)) return false;
  if (place_ == place::metadata) return true;
  if (place_ != place::entry || field_ != field::dtype) return refuse("has a text where none belongs", ec);
  const std::string name = std::exchange(text_, {});
  const auto type = safetensor_type_named(name);
  if (!type) return refuse("has the unknown dtype " + in_quotes(name), ec);
  current_.type = *type;
  field_ = field::none;
  return true;
}

bool header_handler::on_int64(std::int64_t value, std::string_view, code& ec) {
  if (value < 0) return refuse("has the negative number " + std::to_string(value), ec);
  return add_number(static_cast<std::uint64_t>(value), ec);
}

bool header_handler::add_number(std::uint64_t value, code& ec) {
  if (place_ == place::shape) {
    if (current_.dims == safetensors_limits::dims) {
      return refuse("has more than " + std::to_string(safetensors_limits::dims) + " dimensions", ec);
    }
    current_.shape[current_.dims++] = value;
    return true;
  }
  if (place_ != place::offsets) return refuse("has a number where none belongs", ec);
  if (offsets_.size() == 2) return refuse("has more than two data_offsets", ec);
  offsets_.push_back(value);
  return true;
}

bool header_handler::end_entry(code& ec) {
  place_ = place::top;
  if (!has_type_ || !has_shape_ || !has_offsets_) return refuse("lacks dtype, shape or data_offsets", ec);
  if (offsets_.size() != 2 || offsets_[0] > offsets_[1]) {
    return refuse("has data_offsets that are not [begin, end] with begin <= end", ec);
  }
  current_.offset = offsets_[0];
  current_.bytes = offsets_[1] - offsets_[0];
  tensors.push_back(std::move(current_));
  current_ = {};
  return true;
}

}  // namespace orcd::engine
