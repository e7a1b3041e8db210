#include <array>
#include <string_view>

#include "app/pod/field_reader.hpp"

namespace orcd::app {
namespace {

using node = field_reader::node;
using path = field_reader::path;

constexpr std::size_t variables_max = 64;
constexpr std::size_t variable_name_max = 256;
/// The fields that the API lets variables have, but for those of resources.
constexpr const char* field_pattern =
    "metadata\\.(name|namespace|uid)|spec\\.(nodeName|serviceAccountName)|status\\.(hostIPs?|podIPs?)|"
    "metadata\\.(labels|annotations)\\['[-A-Za-z0-9_./]+'\\]";

void read_key_of(field_reader& reader, value_source::kind kind, const node& value, const path& at,
                 value_source& out) {
  out.of = kind;
  reader.read_map(
      value, at,
      {{"name", [&](const node& v, const path& p) { reader.read_object_name(v, p, out.object); }},
       {"key", [&](const node& v, const path& p) { reader.read_data_key(v, p, out.key); }},
       {"optional", [&](const node& v, const path& p) { reader.read_bool(v, p, out.optional); }}});
  reader.need(value, at, {"name", "key"});
}

void read_field_of(field_reader& reader, const node& value, const path& at, value_source& out) {
  out.of = value_source::kind::field;
  reader.read_map(value, at, {{"fieldPath", [&](const node& v, const path& p) {
                                 reader.read_matching(v, p, 512, field_pattern,
                                                      "a field such as metadata.name or status.podIP",
                                                      out.key);
                               }}});
  reader.need(value, at, {"fieldPath"});
}

void read_source(field_reader& reader, const node& value, const path& at, value_source& out) {
  using kind = value_source::kind;
  reader.read_map(
      value, at,
      {{"secretKeyRef", [&](const node& v, const path& p) { read_key_of(reader, kind::secret, v, p, out); }},
       {"configMapKeyRef",
        [&](const node& v, const path& p) { read_key_of(reader, kind::config_map, v, p, out); }},
       {"fieldRef", [&](const node& v, const path& p) { read_field_of(reader, v, p, out); }}});
  if (value.IsMap() && value.size() != 1) {
    reader.problem(at, "needs one of secretKeyRef, configMapKeyRef and fieldRef");
  }
}

}  // namespace

void read_environment(field_reader& reader, const node& value, const path& at,
                      std::vector<environment_entry>& out) {
  reader.read_list(value, at, variables_max, [&](const node& item, const path& inner) {
    environment_entry entry;
    reader.read_map(
        item, inner,
        {{"name",
          [&](const node& v, const path& p) {
            reader.read_matching(v, p, variable_name_max, "[A-Za-z_][A-Za-z0-9_]*", "a name of a variable",
                                 entry.name);
          }},
         {"value", [&](const node& v,
                       const path& p) { reader.read_text(v, p, pod_text_bytes_max, entry.value, true); }},
         {"valueFrom",
          [&](const node& v, const path& p) { read_source(reader, v, p, entry.from.emplace()); }}});
    reader.need(item, inner, {"name"});
    if (item.IsMap() && item["value"] && item["valueFrom"]) {
      reader.problem(inner, "cannot have both value and valueFrom");
    }
    out.push_back(std::move(entry));
  });
}

}  // namespace orcd::app
