#include "net/models/adapter_list.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <limits>
#include <sstream>
#include <utility>

#include "engine/accelerator.hpp"
#include "engine/text/utf8.hpp"
#include "net/json/json_text.hpp"
#include "net/json/object_members.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

constexpr std::size_t scales_max = 256;
constexpr std::size_t name_bytes_max = 256;

result<adapter_scale> read_scale(const std::string& path, const json::value& value) {
  constexpr std::array<std::string_view, 2> members{"id", "scale"};
  if (!value.is_object()) return refuse_kind(path, "an object with id and scale", value);
  const json::object& object = value.get_object();
  if (const auto known = only_members(object, path, members); !known) return known.error();
  const json::value* const id = find_member(object, "id");
  const json::value* const scale = find_member(object, "scale");
  if (id == nullptr) return refuse_field(path + ".id", "is missing");
  if (scale == nullptr) return refuse_field(path + ".scale", "is missing");
  const auto number = as_integer(path + ".id", *id, 0, std::numeric_limits<std::uint32_t>::max());
  if (!number) return number.error();
  const auto strength = as_real(path + ".scale", *scale, {-adapter_scale_max, adapter_scale_max});
  if (!strength) return strength.error();
  return adapter_scale{static_cast<std::uint32_t>(*number), *strength};
}

const served_adapter* find_id(const adapter_list& list, std::uint32_t id) {
  const auto found = std::find_if(list.begin(), list.end(), [id](const auto& one) { return one.id == id; });
  return found == list.end() ? nullptr : &*found;
}

std::string_view last_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos || path.size() == 1 ? path : path.substr(slash + 1);
}

}  // namespace

served_adapter describe_adapter(std::string name, std::string_view path, const engine::lora_adapter& values) {
  served_adapter out;
  out.name = std::move(name);
  out.path = last_name(path);
  out.digest = values.digest;
  out.rank = values.rank_max;
  out.pairs = values.pairs.size();
  out.bytes = values.values.size() * sizeof(float);
  return out;
}

const served_adapter* find_adapter(const shared_adapters& list, std::string_view name) {
  if (!list) return nullptr;
  const auto found =
      std::find_if(list->begin(), list->end(), [name](const auto& one) { return one.name == name; });
  return found == list->end() ? nullptr : &*found;
}

bool is_adapter_name(std::string_view name) noexcept {
  if (name.empty() || name.size() > name_bytes_max) return false;
  const bool bad = std::any_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '=' || c == ',';
  });
  return !bad && engine::utf8::valid_bytes(name) == name.size();
}

result<std::vector<adapter_scale>> read_adapter_scales(std::string_view field, const json::value& value) {
  const auto* const list = value.if_array();
  if (list == nullptr) return refuse_kind(field, "an array of objects with id and scale", value);
  if (list->size() > scales_max) {
    return refuse_field(field, "may have " + std::to_string(scales_max) + " adapters, it has " +
                                   std::to_string(list->size()));
  }
  std::vector<adapter_scale> out;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string path = element_path(std::string(field), i);
    const auto one = read_scale(path, (*list)[i]);
    if (!one) return one.error();
    const bool twice =
        std::any_of(out.begin(), out.end(), [&](const auto& before) { return before.id == one->id; });
    if (twice) return refuse_field(path + ".id", "is " + std::to_string(one->id) + ", which is given twice");
    out.push_back(*one);
  }
  return out;
}

result<void> check_adapter_ids(std::string_view field, std::span<const adapter_scale> scales,
                               const adapter_list& list) {
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if (find_id(list, scales[i].id) != nullptr) continue;
    return refuse_field(element_path(std::string(field), i) + ".id",
                        "is " + std::to_string(scales[i].id) +
                            ", which no LoRA adapter has; GET /lora-adapters lists the " +
                            std::to_string(list.size()) + " that are loaded");
  }
  return {};
}

result<void> check_applied(std::string_view field, std::size_t applied) {
  if (applied <= engine::active_adapters_max) return {};
  return refuse_field(field, "may apply " + std::to_string(engine::active_adapters_max) +
                                 " adapters to one request, with these scales there are " +
                                 std::to_string(applied));
}

result<std::vector<engine::job_adapter>> adapters_of(const adapter_choice& choice,
                                                     const shared_adapters& list) {
  static const adapter_list none;
  const adapter_list& all = list ? *list : none;
  std::vector<engine::job_adapter> out;
  const std::string_view field = choice.named != nullptr ? "model" : "lora";
  const auto add = [&out, field](const served_adapter& one, float strength) {
    if (strength != 0.0F) out.push_back({one.index, strength, one.digest, field});
  };
  if (choice.scales) {
    if (choice.named != nullptr) return refuse_field("lora", "cannot be beside an adapter's name as 'model'");
    if (const auto known = check_adapter_ids("lora", *choice.scales, all); !known) return known.error();
    for (const adapter_scale& one : *choice.scales) add(*find_id(all, one.id), one.scale);
  } else if (choice.named != nullptr) {
    add(*choice.named, choice.named->strength);
  } else {
    for (const served_adapter& one : all) add(one, one.scale);
  }
  if (const auto few = check_applied("lora", out.size()); !few) return few.error();
  return out;
}

std::string shown_scale(float scale) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), scale == 0.0F ? 0.0F : scale);
  return {text.data(), end.ptr};
}

std::string adapters_json(const adapter_list& list) {
  std::string out = "[";
  for (const served_adapter& one : list) {
    if (out.size() > 1) out += ',';
    json_object json(out);
    json.integer("id", one.id)
        .text("name", one.name)
        .text("path", one.path)
        .raw("scale", shown_scale(one.scale));
    json.close();
  }
  return out + "]";
}

std::string adapters_identity(const adapter_list& list) {
  std::ostringstream out;
  out << std::hexfloat;
  for (const served_adapter& one : list) {
    out << one.name << '\n' << one.digest << ' ' << one.strength << ' ' << one.scale << '\n';
  }
  return out.str();
}

}  // namespace orcd::net
