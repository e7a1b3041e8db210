#include <initializer_list>
#include <iterator>
#include <utility>

#include "app/pod/field_reader.hpp"

namespace orcd::app {
namespace {

using node = field_reader::node;
using path = field_reader::path;
using fields = field_reader::fields;

constexpr std::size_t image_bytes_max = 512;
/// Names get suffixes and become labels of at most 63 bytes.
constexpr std::size_t name_bytes_max = 52;

class spec_reader {
 public:
  read_pod_result read(const YAML::Node& root) {
    reader_.read_map(root, "", service_fields());
    if (reader_.problem_count() == 0 && spec_.name.empty()) reader_.problem("name", "is missing");
    if (reader_.problem_count() == 0 && spec_.image.empty()) reader_.problem("image", "is missing");
    return {std::move(spec_), reader_.take_problems()};
  }

 private:
  void read_times(const node& value, const path& at, probe_times& out) {
    reader_.read_map(
        value, at,
        {{"periodSeconds",
          [&](const node& v, const path& p) { reader_.read_number(v, p, 1, 3'600, out.period); }},
         {"timeoutSeconds",
          [&](const node& v, const path& p) { reader_.read_number(v, p, 1, 600, out.timeout); }},
         {"failureThreshold",
          [&](const node& v, const path& p) { reader_.read_number(v, p, 1, 100'000, out.failures); }}});
  }

  void read_probes(const node& value, const path& at) {
    auto& probes = spec_.probes;
    if (value.IsScalar()) {
      if (value.Scalar() == "seed") {
        probes = planned_probes();
      } else if (value.Scalar() != "default") {
        reader_.problem(at, "must be default, seed, or a map of probes");
      }
      return;
    }
    const auto times = [this](probe_times& out) {
      return [this, &out](const node& v, const path& p) { read_times(v, p, out); };
    };
    reader_.read_map(value, at,
                     {{"startup", times(probes.startup)},
                      {"liveness", times(probes.liveness)},
                      {"readiness", times(probes.readiness)},
                      {"holderStartup", times(probes.holder_startup)}});
  }

  void read_model(const node& value, const path& at) {
    auto& model = spec_.model.emplace();
    const char* const absolute = "/[^:]*";
    reader_.read_map(value, at,
                     {{"persistentVolumeClaim",
                       [&](const node& v, const path& p) { reader_.read_object_name(v, p, model.claim); }},
                      {"hostPath",
                       [&](const node& v, const path& p) {
                         reader_.read_matching(v, p, pod_text_bytes_max, absolute, "an absolute path",
                                               model.host_path);
                       }},
                      {"mountPath", [&](const node& v, const path& p) {
                         reader_.read_matching(v, p, pod_text_bytes_max, absolute,
                                               "an absolute path without ':'", model.mount_path);
                       }}});
    if (value.IsMap() && bool(value["persistentVolumeClaim"]) == bool(value["hostPath"])) {
      reader_.problem(at, "needs one of persistentVolumeClaim and hostPath");
    }
  }

  void read_limits(const node& value, const path& at) {
    auto& spec = spec_;
    reader_.read_map(
        value, at,
        {{"gpu", [&](const node& v, const path& p) { reader_.read_number(v, p, 0, 16, spec.gpus); }},
         {"cpu", [&](const node& v, const path& p) { reader_.read_quantity(v, p, spec.cpu); }},
         {"memory", [&](const node& v, const path& p) { reader_.read_quantity(v, p, spec.memory); }}});
  }

  void read_weights(const node& value, const path& at) {
    std::string word;
    reader_.read_matching(value, at, 16, "shared|own", "shared or own", word);
    if (!word.empty()) spec_.weights = word == "own" ? weights_of::own : weights_of::shared;
  }

  fields service_fields() {
    auto all = names_and_numbers();
    for (auto& more : {what_runs(), cluster_fields(reader_, spec_)}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

  fields names_and_numbers() {
    auto& spec = spec_;
    return {
        {"name",
         [&](const node& v, const path& p) {
           reader_.read_matching(v, p, name_bytes_max, "[a-z]([-a-z0-9]*[a-z0-9])?",
                                 "lower case letters, digits and '-', beginning with a letter", spec.name);
         }},
        {"componentType",
         [&](const node& v, const path& p) {
           reader_.read_matching(v, p, 32, "worker|frontend", "worker or frontend", spec.component_type);
         }},
        {"replicas",
         [&](const node& v, const path& p) { reader_.read_number(v, p, 0, 1'000, spec.replicas); }},
        {"failover",
         reader_.nested("enabled",
                        [&](const node& v, const path& p) { reader_.read_bool(v, p, spec.failover); })},
        {"weights", [&](const node& v, const path& p) { read_weights(v, p); }},
        {"multinode", reader_.nested("nodeCount",
                                     [&](const node& v, const path& p) {
                                       reader_.read_number(v, p, 1, 1'000, spec.nodes.emplace());
                                     })},
        {"resources", reader_.nested("limits", [&](const node& v, const path& p) { read_limits(v, p); })},
        {"dra", [&](const node& v, const path& p) { reader_.read_bool(v, p, spec.dra.emplace()); }},
        {"port", [&](const node& v, const path& p) { reader_.read_number(v, p, 1'024, 65'535, spec.port); }},
        {"drainTimeout",
         [&](const node& v, const path& p) { reader_.read_number(v, p, 0, 3'600, spec.drain_timeout); }},
    };
  }

  fields what_runs() {
    auto& spec = spec_;
    return {
        {"image",
         [&](const node& v, const path& p) {
           reader_.read_matching(v, p, image_bytes_max, "[A-Za-z0-9][-A-Za-z0-9._/:@]*",
                                 "the name of an image", spec.image);
         }},
        {"command",
         [&](const node& v, const path& p) {
           reader_.read_texts(v, p, spec.command);
           if (v.IsSequence() && spec.command.empty()) reader_.problem(p, "must not be empty");
         }},
        {"args", [&](const node& v, const path& p) { reader_.read_texts(v, p, spec.args); }},
        {"workingDir",
         [&](const node& v, const path& p) {
           reader_.read_matching(v, p, pod_text_bytes_max, "/.*", "an absolute path", spec.working_dir);
         }},
        {"env", [&](const node& v, const path& p) { read_environment(reader_, v, p, spec.environment); }},
        {"model", [&](const node& v, const path& p) { read_model(v, p); }},
        {"probes", [&](const node& v, const path& p) { read_probes(v, p); }},
    };
  }

  pod_spec spec_;
  field_reader reader_;
};

}  // namespace

read_pod_result read_pod_spec(std::string_view yaml) {
  if (yaml.size() > spec_bytes_max) {
    return {{}, {"the file is longer than " + std::to_string(spec_bytes_max) + " bytes"}};
  }
  // The library tells what it cannot read by exceptions.
  try {
    const auto documents = YAML::LoadAll(std::string(yaml));
    if (documents.size() != 1) return {{}, {"the file must have one document"}};
    return spec_reader().read(documents.front());
  } catch (const YAML::Exception& e) {
    return {{}, {"the file is no YAML: line " + std::to_string(e.mark.line + 1) + ": " + shown_piece(e.msg)}};
  }
}

}  // namespace orcd::app
