// worker-orcd-inspect info: what a GGUF file holds.
#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

#include "app/console/one_line.hpp"
#include "app/inspect/inspect.hpp"
#include "app/inspect/projector.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/gguf/gguf_parser.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/text/utf8_buffer.hpp"

namespace orcd::app {
namespace {

namespace json = boost::json;
using engine::gguf_array;
using engine::gguf_value;
using engine::tensor_view;

/// Text values are cut to this length for people, and to `longest_json` in JSON.
constexpr std::size_t longest_shown = 72;
constexpr std::size_t longest_json = 64 * 1024;

struct type_share {
  std::string_view name;
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
};

std::vector<type_share> shares_of(const engine::gguf_file& file) {
  std::vector<type_share> out;
  for (const tensor_view& tensor : file.tensors()) {
    const std::string_view name = engine::traits_of(tensor.type).name;
    auto at = std::find_if(out.begin(), out.end(), [&](const type_share& s) { return s.name == name; });
    if (at == out.end()) at = out.insert(out.end(), type_share{name});
    ++at->tensors;
    at->bytes += tensor.bytes;
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return out;
}

std::string type_label(const gguf_value& value) {
  std::string label(engine::value_type_name(static_cast<std::uint32_t>(value.type)));
  if (const auto* array = std::get_if<gguf_array>(&value.value)) {
    label = std::string(engine::value_type_name(static_cast<std::uint32_t>(array->element))) + "[" +
            std::to_string(array->count) + "]";
  }
  return label;
}

/// Without arrays: vocabularies have hundreds of thousands of entries. Numbers that JSON cannot hold become
/// null.
json::value value_json(const gguf_value& value) {
  if (const auto* v = std::get_if<std::uint64_t>(&value.value)) return *v;
  if (const auto* v = std::get_if<std::int64_t>(&value.value)) return *v;
  if (const auto* v = std::get_if<bool>(&value.value)) return *v;
  if (const auto* v = std::get_if<double>(&value.value))
    return std::isfinite(*v) ? json::value(*v) : json::value();
  if (const auto* v = std::get_if<std::string_view>(&value.value)) {
    return json::value(engine::valid_utf8(v->substr(0, longest_json)));
  }
  return {};
}

std::string value_text(const gguf_value& value) {
  if (std::holds_alternative<gguf_array>(value.value)) return "...";
  const auto* text = std::get_if<std::string_view>(&value.value);
  if (text == nullptr) return json::serialize(value_json(value));
  const std::string shown = json::serialize(json::value(engine::valid_utf8(text->substr(0, longest_shown))));
  return shown + (text->size() > longest_shown ? " ... " + grouped(text->size()) + " bytes" : "");
}

std::string shape_text(const tensor_view& tensor) {
  std::string out = "[";
  for (std::uint32_t d = 0; d < tensor.dims; ++d)
    out += (d == 0 ? "" : ", ") + std::to_string(tensor.extents[d]);
  return out + "]";
}

json::object tensor_json(const tensor_view& tensor) {
  json::array shape;
  for (std::uint32_t d = 0; d < tensor.dims; ++d) shape.emplace_back(tensor.extents[d]);
  return {{"name", engine::valid_utf8(tensor.name)},
          {"type", engine::traits_of(tensor.type).name},
          {"shape", std::move(shape)},
          {"bytes", tensor.bytes},
          {"part", tensor.part},
          {"offset", tensor.file_offset}};
}

std::string architecture_of(const engine::gguf_file& file) {
  const auto name = file.get_string("general.architecture", "");
  return name ? engine::valid_utf8(*name) : std::string();
}

std::string as_json(const engine::gguf_file& file, const engine::result<engine::model>& model) {
  json::object metadata;
  for (const auto& entry : file.entries()) {
    metadata[engine::valid_utf8(entry.key)] = {{"type", type_label(entry.value)},
                                               {"value", value_json(entry.value)}};
  }
  json::array types;
  for (const type_share& share : shares_of(file)) {
    types.push_back({{"type", share.name}, {"tensors", share.tensors}, {"bytes", share.bytes}});
  }
  json::array tensors;
  for (const tensor_view& tensor : file.tensors()) tensors.emplace_back(tensor_json(tensor));
  json::object out{
      {"file", engine::valid_utf8(file.location())},
      {"version", file.version()},
      {"alignment", file.alignment()},
      {"parts", file.parts().size()},
      {"file_bytes", file.file_bytes()},
      {"tensor_bytes", file.tensor_bytes()},
      {"architecture", architecture_of(file)},
      {"quant_kind", file.quant_kind()},
      {"servable", model.has_value()},
      {"problem", model ? json::value() : json::value(engine::valid_utf8(model.error().message))},
      {"types", std::move(types)},
      {"metadata", std::move(metadata)},
      {"tensors", std::move(tensors)}};
  return json::serialize(out) + "\n";
}

void append_line(std::string& out, const char* format, const auto&... values) {
  std::array<char, 512> line{};
  std::snprintf(line.data(), line.size(), format, values...);
  out += line.data();
  out += '\n';
}

void append_summary(std::string& out, const engine::gguf_file& file,
                    const engine::result<engine::model>& model) {
  append_line(out, "file          %s", one_line(file.location()).c_str());
  append_line(out, "format        GGUF version %u, alignment %u, %zu part(s), %s bytes", file.version(),
              file.alignment(), file.parts().size(), grouped(file.file_bytes()).c_str());
  append_line(out, "architecture  %s", one_line(architecture_of(file)).c_str());
  append_line(out, "quant_kind    %s", one_line(file.quant_kind()).c_str());
  if (model) {
    const engine::model_spec& spec = model->spec;
    append_line(out, "model         %s: %zu layers, embedding %u, vocabulary %u, context %u",
                one_line(spec.name).c_str(), spec.layers.size(), spec.embedding, spec.vocab,
                spec.context_length);
    if (spec.predicting_layers > 0)
      append_line(out,
                  "not loaded    its last %u layer(s), which predict further tokens (multi-token prediction)",
                  spec.predicting_layers);
  } else if (const auto projector = describe_projector(file); projector && *projector) {
    out += "projector     " + one_line((*projector)->sentence) + "\n";
  } else if (projector) {
    out += "not usable    " + one_line(projector->error().message) + "\n";
  } else {
    out += "not servable  " + one_line(model.error().message) + "\n";
  }
}

std::string as_text(const engine::gguf_file& file, const engine::result<engine::model>& model) {
  std::string out;
  append_summary(out, file, model);
  append_line(out, "\nmetadata      %zu keys", file.entries().size());
  for (const auto& entry : file.entries()) {
    append_line(out, "  %-44s %-14s %s", one_line(entry.key).c_str(), type_label(entry.value).c_str(),
                one_line(value_text(entry.value)).c_str());
  }
  append_line(out, "\ntensors       %zu, %s bytes", file.tensors().size(),
              grouped(file.tensor_bytes()).c_str());
  for (const type_share& share : shares_of(file)) {
    append_line(out, "  %-6.*s %6s tensors %18s bytes %6.2f %%", static_cast<int>(share.name.size()),
                share.name.data(), grouped(share.tensors).c_str(), grouped(share.bytes).c_str(),
                100.0 * static_cast<double>(share.bytes) / static_cast<double>(file.tensor_bytes()));
  }
  for (const tensor_view& tensor : file.tensors()) {
    append_line(out, "  %-44s %-6s %-24s %15s", one_line(tensor.name).c_str(),
                std::string(engine::traits_of(tensor.type).name).c_str(), shape_text(tensor).c_str(),
                grouped(tensor.bytes).c_str());
  }
  return out;
}

}  // namespace

engine::result<std::string> inspect_info(const inspect_arguments& arguments) {
  const auto file = engine::gguf_file::open(arguments.model);
  if (!file) return file.error();
  const auto model = engine::load_model(*file);
  return arguments.json ? as_json(*file, model) : as_text(*file, model);
}

}  // namespace orcd::app
