#include "app/pod/field_reader.hpp"

namespace orcd::app {
namespace {

using node = field_reader::node;
using path = field_reader::path;

constexpr std::size_t pull_secrets_max = 16;
constexpr std::size_t tolerations_max = 32;
constexpr std::uint32_t seconds_max = 31'536'000;

void read_pull_secrets(field_reader& reader, const node& value, const path& at,
                       std::vector<std::string>& out) {
  reader.read_list(value, at, pull_secrets_max, [&](const node& item, const path& inner) {
    auto& name = out.emplace_back();
    reader.read_map(item, inner,
                    {{"name", [&](const node& v, const path& p) { reader.read_object_name(v, p, name); }}});
    reader.need(item, inner, {"name"});
  });
}

/// What the API asks of a toleration beside the types of its fields.
void check_toleration(field_reader& reader, const toleration& one, const path& at) {
  const bool exists = one.operation == "Exists";
  if (one.key.empty() && !exists) reader.problem(at + ".key", "is missing; only operator Exists needs none");
  if (exists && !one.value.empty()) reader.problem(at + ".value", "must be empty with operator Exists");
  if (one.seconds && one.effect != "NoExecute") {
    reader.problem(at + ".tolerationSeconds", "is only valid with effect NoExecute");
  }
}

void read_toleration(field_reader& reader, const node& value, const path& at, toleration& out) {
  const auto before = reader.problem_count();
  reader.read_map(value, at,
                  {{"key", [&](const node& v, const path& p) { reader.read_label_key(v, p, out.key); }},
                   {"operator",
                    [&](const node& v, const path& p) {
                      reader.read_matching(v, p, 16, "Exists|Equal", "Exists or Equal", out.operation);
                    }},
                   {"value", [&](const node& v, const path& p) { reader.read_label_value(v, p, out.value); }},
                   {"effect",
                    [&](const node& v, const path& p) {
                      reader.read_matching(v, p, 32, "NoSchedule|PreferNoSchedule|NoExecute",
                                           "NoSchedule, PreferNoSchedule or NoExecute", out.effect);
                    }},
                   {"tolerationSeconds", [&](const node& v, const path& p) {
                      reader.read_number(v, p, 0, seconds_max, out.seconds.emplace());
                    }}});
  if (value.IsMap() && reader.problem_count() == before) check_toleration(reader, out, at);
}

void read_secret_file(field_reader& reader, const node& value, const path& at, secret_file& out) {
  reader.read_map(
      value, at,
      {{"secret", [&](const node& v, const path& p) { reader.read_object_name(v, p, out.secret); }},
       {"key", [&](const node& v, const path& p) { reader.read_data_key(v, p, out.key); }}});
  reader.need(value, at, {"secret", "key"});
}

}  // namespace

field_reader::fields cluster_fields(field_reader& reader, pod_spec& spec) {
  return {
      {"namespace",
       [&](const node& v, const path& p) {
         reader.read_matching(v, p, label_bytes_max, "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
                              "lower case letters, digits and '-'", spec.name_space);
       }},
      {"labels", [&](const node& v, const path& p) { reader.read_labels(v, p, spec.labels); }},
      {"imagePullSecrets",
       [&](const node& v, const path& p) { read_pull_secrets(reader, v, p, spec.pull_secrets); }},
      {"apiKeyFile",
       [&](const node& v, const path& p) { read_secret_file(reader, v, p, spec.api_keys.emplace()); }},
      {"nodeSelector", [&](const node& v, const path& p) { reader.read_labels(v, p, spec.node_selector); }},
      {"tolerations",
       [&](const node& v, const path& p) {
         reader.read_list(v, p, tolerations_max, [&](const node& item, const path& inner) {
           read_toleration(reader, item, inner, spec.tolerations.emplace_back());
         });
       }},
      {"disruptionBudget", reader.nested("maxUnavailable",
                                         [&](const node& v, const path& p) {
                                           reader.read_number(v, p, 0, 1'000, spec.unavailable_max);
                                         })},
  };
}

}  // namespace orcd::app
