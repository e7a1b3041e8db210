#include "net/ollama/model_facts.hpp"

#include <array>
#include <boost/json/value.hpp>
#include <chrono>
#include <cstdio>
#include <vector>

#include "engine/conversation/chat_format.hpp"
#include "net/http/sse.hpp"
#include "net/jobs/model_task.hpp"
#include "net/json/json_text.hpp"
#include "net/json/object_members.hpp"
#include "net/json/read_body.hpp"
#include "net/models/model_names.hpp"
#include "net/ollama/model_tags.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

/// A time that never comes: the model stays loaded.
constexpr std::string_view never = "2300-01-01T00:00:00Z";

std::string time_text(std::int64_t seconds) {
  return to_rfc3339(std::chrono::system_clock::time_point(std::chrono::seconds(seconds)));
}

/// The hexadecimal digits alone.
std::string_view digits_of_digest(std::string_view digest) {
  constexpr std::string_view prefix = "sha256:";
  return digest.starts_with(prefix) ? digest.substr(prefix.size()) : digest;
}

std::string details_of(const engine::worker_identity& identity, std::string_view parent) {
  std::string family;
  append_json_string(family, identity.architecture);
  std::string out;
  json_object json(out);
  json.text("parent_model", parent)
      .text("format", "gguf")
      .raw("family", family)
      .raw("families", "[" + family + "]")
      .text("parameter_size", parameter_size(identity.parameters))
      .text("quantization_level", identity.quant_kind);
  json.close();
  return out;
}

/// Something that a request may name.
struct listed_model {
  std::string name;
  std::string_view parent{};  ///< of an adapter
  std::uint64_t bytes = 0;
  std::string_view digest{};
  std::int64_t created = 0;
};

std::vector<listed_model> listed(const service& s, const shared_adapters& adapters) {
  const auto& identity = s.context.identity;
  std::vector<listed_model> out;
  for (const auto id : model_ids(identity)) {
    out.push_back({with_tag(id), {}, identity.tensor_bytes, identity.digest, s.created()});
  }
  if (!adapters) return out;
  for (const auto& one : *adapters) {
    out.push_back({with_tag(one.name), identity.model_name, one.bytes, one.digest, one.created});
  }
  return out;
}

json_object begin_model(std::string& out, const engine::worker_identity& identity, const listed_model& one) {
  json_object json(out);
  json.text("name", one.name)
      .text("model", one.name)
      .integer("size", one.bytes)
      .text("digest", digits_of_digest(one.digest))
      .raw("details", details_of(identity, one.parent));
  return json;
}

std::string capabilities_of(const service& s) {
  if (model_task_of(s.context.identity) != model_task::generate) return R"(["embedding"])";
  std::string out = R"(["completion")";
  const auto* chat = s.context.chat;
  if (chat != nullptr) out += R"(,"tools")";
  if (s.context.tokenizer.infill().usable()) out += R"(,"insert")";
  const bool thinks =
      chat != nullptr && (chat->output().think || chat->output().calls == engine::call_format::harmony);
  if (thinks) out += R"(,"thinking")";
  return out + "]";
}

/// The file's facts by their GGUF keys.
std::string model_info_of(const service& s) {
  const auto& identity = s.context.identity;
  const std::string& family = identity.architecture;
  std::string out;
  json_object json(out);
  json.text("general.architecture", family)
      .integer("general.parameter_count", identity.parameters)
      .integer(family + ".context_length", identity.context_trained)
      .integer(family + ".embedding_length", identity.embedding_length)
      .integer(family + ".vocab_size", identity.vocab)
      .text("tokenizer.ggml.model", identity.tokenizer_kind)
      .integer("tokenizer.ggml.bos_token_id", s.context.tokenizer.bos())
      .integer("tokenizer.ggml.eos_token_id", s.context.tokenizer.eos());
  json.close();
  return out;
}

}  // namespace

std::string parameter_size(std::uint64_t parameters) {
  struct step {
    double unit;
    int digits;
    const char* letter;
  };
  constexpr std::array steps{step{1e12, 1, "T"}, step{1e9, 1, "B"}, step{1e6, 2, "M"}, step{1e3, 2, "K"}};
  const auto number = static_cast<double>(parameters);
  for (const auto& [unit, digits, letter] : steps) {
    if (number < unit) continue;
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%.*f%s", digits, number / unit, letter);
    return text.data();
  }
  return std::to_string(parameters);
}

reply answer_ollama_version() {
  std::string body;
  json_object json(body);
  json.text("version", ollama_version);
  json.close();
  return make_json_reply(200, std::move(body));
}

reply answer_ollama_tags(const service& s) {
  const auto adapters = s.adapters();
  std::string body = R"({"models":[)";
  for (const auto& one : listed(s, adapters)) {
    if (body.back() != '[') body += ',';
    json_object model = begin_model(body, s.context.identity, one);
    model.text("modified_at", time_text(one.created));
    model.close();
  }
  return make_json_reply(200, body + "]}");
}

reply answer_ollama_ps(const service& s) {
  const auto adapters = s.adapters();
  const auto& identity = s.context.identity;
  std::string body = R"({"models":[)";
  for (const auto& one : listed(s, adapters)) {
    if (body.back() != '[') body += ',';
    json_object model = begin_model(body, identity, one);
    model.text("expires_at", never)
        .integer("size_vram", identity.gpu_device >= 0 ? one.bytes : 0)
        .integer("context_length", identity.context_tokens);
    model.close();
  }
  return make_json_reply(200, body + "]}");
}

result<std::string> parse_show(std::string_view body) {
  std::string name;
  const auto read =
      read_body(body, [&name](std::string_view field, const json::value& value) -> result<void> {
        if (value.is_null() || field == "options") return {};
        if (field == "verbose") {
          const auto truth = as_flag(field, value);
          return truth ? result<void>() : truth.error();
        }
        // The older name of the field; what would be shown with another system message or template is the
        // same.
        if (field != "model" && field != "name" && field != "system" && field != "template") {
          return unknown_field(field);
        }
        const auto text = as_text(field, value);
        if (!text) return text.error();
        if (field == "model" || (field == "name" && name.empty())) name = *text;
        return {};
      });
  if (!read) return read.error();
  if (name.empty()) return refuse_field("model", "is missing");
  return name;
}

reply answer_ollama_show(const service& s, std::string_view asked) {
  const auto& identity = s.context.identity;
  const auto adapters = s.adapters();
  const auto found = find_model(identity, adapters, without_tag(identity, adapters, asked));
  if (!found) return make_error_reply(found.error());
  const auto* adapter = *found;
  std::string body;
  json_object json(body);
  json.text("modelfile", "# This worker serves a GGUF file; no Modelfile made it.\n")
      .text("parameters", "num_ctx                        " + std::to_string(identity.context_tokens))
      .text("template", s.context.chat == nullptr ? std::string_view() : s.context.chat->text())
      .raw("details", details_of(identity, adapter == nullptr ? std::string_view() : identity.model_name))
      .raw("model_info", model_info_of(s))
      .raw("capabilities", capabilities_of(s))
      .text("modified_at", time_text(adapter == nullptr ? s.created() : adapter->created));
  json.close();
  return make_json_reply(200, std::move(body));
}

}  // namespace orcd::net
