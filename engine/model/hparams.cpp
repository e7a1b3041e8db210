#include "engine/model/hparams.hpp"

#include <limits>

namespace orcd::engine {
namespace {

/// The getters say "FILE: key ..."; the list of problems names the file once.
std::string without_file(const gguf_file& file, const error& e) {
  const std::string prefix = std::string(file.location()) + ": ";
  return e.message.starts_with(prefix) ? e.message.substr(prefix.size()) : e.message;
}

std::string shown(double value) {
  std::string text = std::to_string(value);
  return text.size() > 32 ? text.substr(0, 32) : text;
}

}  // namespace

std::uint32_t hparam_reader::checked(std::string_view key, std::uint64_t value, std::uint32_t least,
                                     std::uint32_t most) {
  if (value >= least && value <= most) return static_cast<std::uint32_t>(value);
  problems_.add("key '" + full(key) + "' is " + std::to_string(value) + "; it must be " +
                std::to_string(least) + " to " + std::to_string(most));
  return least;
}

std::uint32_t hparam_reader::count(std::string_view key, std::uint32_t least, std::uint32_t most,
                                   std::optional<std::uint32_t> fallback) {
  if (fallback && !has(key)) return *fallback;
  const auto value = file_.require_unsigned(reading(key));
  if (value) return checked(key, *value, least, most);
  problems_.add(without_file(file_, value.error()));
  return fallback.value_or(least);
}

std::vector<std::uint32_t> hparam_reader::per_layer(std::string_view key, std::uint32_t layers,
                                                    std::uint32_t least, std::uint32_t most,
                                                    std::optional<std::uint32_t> fallback) {
  const gguf_value* value = file_.find(full(key));
  if (value == nullptr || value->type != gguf_value_type::array) {
    return std::vector<std::uint32_t>(layers, count(key, least, most, fallback));
  }
  std::vector<std::uint32_t> out(layers, least);
  const auto list = file_.get_integers(reading(key));
  if (!list) {
    problems_.add(without_file(file_, list.error()));
  } else if (list->size() != layers && list->size() != std::size_t{layers} + left_out_) {
    problems_.add("key '" + full(key) + "' has " + std::to_string(list->size()) + " values for " +
                  std::to_string(layers) + " layers");
  } else {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t v = (*list)[i];
      out[i] = checked(key, v < 0 ? std::numeric_limits<std::uint64_t>::max() : static_cast<std::uint64_t>(v),
                       least, most);
    }
  }
  return out;
}

double hparam_reader::number(std::string_view key, double least, double most, double fallback) {
  const auto value = file_.get_float(reading(key), fallback);
  if (!value) {
    problems_.add(without_file(file_, value.error()));
    return fallback;
  }
  if (*value >= least && *value <= most) return *value;
  problems_.add("key '" + full(key) + "' is " + shown(*value) + "; it must be " + shown(least) + " to " +
                shown(most));
  return fallback;
}

bool hparam_reader::flag(std::string_view key, bool fallback) {
  const auto value = file_.get_bool(reading(key), fallback);
  if (value) return *value;
  problems_.add(without_file(file_, value.error()));
  return fallback;
}

std::string_view hparam_reader::text(std::string_view key, std::string_view fallback) {
  const auto value = file_.get_string(reading(key), fallback);
  if (value) return *value;
  problems_.add(without_file(file_, value.error()));
  return fallback;
}

}  // namespace orcd::engine
