#include "app/quantize/model_config.hpp"

#include <boost/json.hpp>

#include "engine/base/plain_file.hpp"
#include "engine/gguf/byte_cursor.hpp"

namespace orcd::app {
namespace {

namespace json = boost::json;
using engine::errc;
using engine::error;
using engine::result;

constexpr std::uint64_t most_token = (1U << 20U) - 1;

class config_reader {
 public:
  config_reader(const json::object& root, const std::string& name) : root_(root), name_(name) {}

  result<model_config> read() {
    model_config out;
    out.kind = text(root_, "model_type");
    out.activation = text(root_, "hidden_act");
    read_quantization(out);
    model_sizes& s = out.sizes;
    s.hidden_original = count("hidden_size", 1U << 17U);
    s.ffn_original = count("intermediate_size", 1U << 20U);
    s.heads = count("num_attention_heads", 1024);
    s.kv_heads = count("num_key_value_heads", 1024);
    s.head_dim = count("head_dim", 512);
    s.context = count("max_position_embeddings", 1U << 24U);
    s.eps = number(root_, "rms_norm_eps", 1.0);
    s.theta = number(root_, "rope_theta", 1e12);
    read_rope_parameters(s);
    s.tied = flag("tie_word_embeddings");
    out.bos = token("bos_token_id");
    out.eos = token("eos_token_id");
    refuse_unsupported(out);
    if (!problem_.empty()) return error{errc::model_load_failed, name_ + ": " + problem_};
    return out;
  }

 private:
  void fail(std::string text) {
    if (problem_.empty()) problem_ = std::move(text);
  }

  static const json::value* member(const json::object& object, std::string_view key) {
    const json::value* found = object.if_contains(key);
    return found == nullptr || found->is_null() ? nullptr : found;
  }

  std::string text(const json::object& object, std::string_view key) {
    const json::value* found = member(object, key);
    if (found == nullptr) return {};
    if (!found->is_string() || found->get_string().size() > 64) {
      fail("'" + std::string(key) + "' must be a text of at most 64 bytes");
      return {};
    }
    return std::string(found->get_string());
  }

  std::optional<std::uint64_t> whole(const json::value& value, std::uint64_t least, std::uint64_t most) {
    boost::system::error_code code;
    const auto number = value.is_number() && !value.is_double() ? value.to_number<std::uint64_t>(code) : 0;
    if (code || value.is_double() || !value.is_number() || number < least || number > most)
      return std::nullopt;
    return number;
  }

  /// 0 when absent.
  std::uint32_t count(std::string_view key, std::uint32_t most) {
    const json::value* found = member(root_, key);
    if (found == nullptr) return 0;
    const auto value = whole(*found, 1, most);
    if (!value) {
      fail("'" + std::string(key) + "' is " + shown(*found) + "; it must be a whole number from 1 to " +
           std::to_string(most));
    }
    return static_cast<std::uint32_t>(value.value_or(0));
  }

  double number(const json::object& object, std::string_view key, double most) {
    const json::value* found = member(object, key);
    if (found == nullptr) return 0.0;
    const double value = found->is_number() ? found->to_number<double>() : 0.0;
    if (value > 0.0 && value <= most) return value;
    fail("'" + std::string(key) + "' is " + shown(*found) + "; it must be a number above 0 of at most " +
         std::to_string(most));
    return 0.0;
  }

  bool flag(std::string_view key) {
    const json::value* found = member(root_, key);
    if (found == nullptr) return false;
    if (!found->is_bool())
      fail("'" + std::string(key) + "' is " + shown(*found) + "; it must be true or false");
    return found->is_bool() && found->get_bool();
  }

  /// One id, or the first of an array.
  std::optional<std::uint32_t> token(std::string_view key) {
    const json::value* found = member(root_, key);
    if (found != nullptr && found->is_array()) {
      found = found->get_array().empty() ? nullptr : &found->get_array().front();
    }
    if (found == nullptr) return std::nullopt;
    const auto value = whole(*found, 0, most_token);
    if (!value) {
      fail("'" + std::string(key) + "' is " + shown(*found) + "; it must be a token id of at most " +
           std::to_string(most_token));
    }
    return static_cast<std::uint32_t>(value.value_or(0));
  }

  void read_quantization(model_config& out) {
    const json::value* found = member(root_, "quantization_config");
    if (found == nullptr) return;
    if (!found->is_object()) return fail("'quantization_config' must be an object");
    const std::string kind = text(found->get_object(), "linear_class");
    out.scales_divide = kind != "autobitlinear";
    if (!kind.empty() && kind != "bitlinear" && kind != "autobitlinear") {
      fail("'linear_class' is " + engine::in_quotes(kind) + "; it must be bitlinear or autobitlinear");
    }
  }

  /// Where newer trainers have theta.
  void read_rope_parameters(model_sizes& s) {
    const json::value* found = member(root_, "rope_parameters");
    if (found == nullptr) return;
    const json::object* object = found->if_object();
    const json::value* kind = object == nullptr ? nullptr : member(*object, "rope_type");
    if (object == nullptr || (kind != nullptr && *kind != "default")) {
      return fail("'rope_parameters' is " + shown(*found) + "; only the default type is supported");
    }
    for (const auto& [key, value] : *object) {
      if (key == "rope_type" || key == "rope_theta" || value.is_null()) continue;
      return fail("'rope_parameters' has " + engine::in_quotes(std::string_view(key)) +
                  ", which is not supported");
    }
    const double theta = number(*object, "rope_theta", 1e12);
    if (s.theta != 0.0 && theta != 0.0 && theta != s.theta) {
      return fail("'rope_theta' is " + std::to_string(s.theta) + ", and " + std::to_string(theta) +
                  " in 'rope_parameters'");
    }
    if (theta != 0.0) s.theta = theta;
  }

  void refuse_unsupported(const model_config& out) {
    if (!out.activation.empty() && out.activation != "relu2" && out.activation != "silu") {
      fail("'hidden_act' is " + engine::in_quotes(out.activation) + "; it must be relu2 or silu");
    }
    const json::value* scaling = member(root_, "rope_scaling");
    if (scaling == nullptr) return;
    const json::object* object = scaling->if_object();
    const json::value* kind = object == nullptr ? nullptr : member(*object, "rope_type");
    if (kind == nullptr && object != nullptr) kind = member(*object, "type");
    if ((kind != nullptr && *kind == "default") || (object != nullptr && object->empty())) return;
    fail("'rope_scaling' is " + shown(*scaling) + "; only models without it are supported");
  }

  static std::string shown(const json::value& value) { return engine::in_quotes(json::serialize(value)); }

  const json::object& root_;
  const std::string& name_;
  std::string problem_;
};

}  // namespace

result<std::string> read_small_file(const std::string& path, std::uint64_t limit) {
  auto text = engine::read_plain_file(path, limit);
  if (!text) return error{errc::model_load_failed, path + ": " + text.error().message};
  if (text->empty()) return error{errc::model_load_failed, path + ": is empty"};
  return text;
}

result<model_config> parse_model_config(std::string_view text, const std::string& name) {
  boost::system::error_code code;
  json::parse_options options;
  options.max_depth = 32;
  const json::value root = json::parse(text, code, {}, options);
  if (code || !root.is_object()) {
    return error{errc::model_load_failed,
                 name + ": is no JSON object" + (code ? ": " + code.message() : std::string())};
  }
  return config_reader(root.get_object(), name).read();
}

result<model_config> read_model_config(const std::string& path) {
  const auto text = read_small_file(path, config_limits::bytes);
  if (!text) return text.error();
  return parse_model_config(*text, path);
}

}  // namespace orcd::app
