#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <initializer_list>
#include <regex>
#include <utility>

#include "app/pod/pod_spec.hpp"

namespace orcd::app {
namespace {

constexpr std::size_t shown_bytes = 40;
constexpr std::size_t list_items_max = 128;
constexpr std::size_t environment_max = 64;
constexpr std::size_t text_bytes_max = 4'096;
constexpr std::size_t image_bytes_max = 512;
/// Names get suffixes and become labels of at most 63 bytes.
constexpr std::size_t name_bytes_max = 52;

/// A piece of the file for a message: short, and nothing that a terminal obeys.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, shown_bytes));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return out;
}

/// What a plain word of YAML is taken for. Quoted ones are texts, whatever they look like.
bool is_text(const YAML::Node& node) {
  static const std::regex other(
      "~|null|Null|NULL|true|True|TRUE|false|False|FALSE|"
      "[-+]?(\\.[0-9]+|[0-9]+(\\.[0-9]*)?)([eE][-+]?[0-9]+)?|0x[0-9a-fA-F]+|0o[0-7]+|"
      "[-+]?\\.(inf|Inf|INF)|\\.(nan|NaN|NAN)");
  constexpr std::size_t longest_number = 64;
  if (!node.IsScalar()) return false;
  const auto& word = node.Scalar();
  return node.Tag() == "!" || word.size() > longest_number || !std::regex_match(word, other);
}

class spec_reader {
 public:
  read_pod_result read(const YAML::Node& root) {
    read_map(root, "", service_fields());
    if (out_.problems.empty() && out_.spec.name.empty()) problem("name", "is missing");
    if (out_.problems.empty() && out_.spec.image.empty()) problem("image", "is missing");
    return std::move(out_);
  }

 private:
  using node = YAML::Node;
  using path = std::string;
  using action = std::function<void(const node&, const path&)>;
  struct field {
    std::string_view name;
    action read;
  };
  using fields = std::vector<field>;

  void problem(const path& at, const std::string& text) {
    if (out_.problems.size() < problems_max) {
      out_.problems.push_back(at.empty() ? "the file " + text : at + ": " + text);
    }
  }

  /// Each key once, and none that is not among the fields.
  void read_map(const node& value, const path& at, const fields& known) {
    if (!value.IsMap()) return problem(at, "must be a map");
    std::vector<std::string_view> seen;
    for (const auto& entry : value) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
      const path inner = (at.empty() ? "" : at + ".") + shown(key);
      const auto found =
          std::find_if(known.begin(), known.end(), [&](const field& f) { return f.name == key; });
      if (found == known.end()) {
        problem(inner, "unknown field");
      } else if (std::find(seen.begin(), seen.end(), found->name) != seen.end()) {
        problem(inner, "is given twice");
      } else {
        seen.push_back(found->name);
        found->read(entry.second, inner);
      }
    }
  }

  void read_text(const node& value, const path& at, std::size_t bytes_max, std::string& out,
                 bool may_be_empty = false) {
    if (!is_text(value)) return problem(at, "must be a string; numbers and true or false need quotes");
    const auto& text = value.Scalar();
    if (text.empty() && !may_be_empty) return problem(at, "must not be empty");
    if (text.size() > bytes_max) {
      return problem(at, "is longer than " + std::to_string(bytes_max) + " bytes");
    }
    if (text.find('\0') != std::string::npos) return problem(at, "must not have a zero byte");
    out = text;
  }

  void read_matching(const node& value, const path& at, std::size_t bytes_max, const char* pattern,
                     const char* rule, std::string& out) {
    std::string text;
    read_text(value, at, bytes_max, text);
    if (text.empty()) return;
    if (!std::regex_match(text, std::regex(pattern))) {
      return problem(at, "is '" + shown(text) + "'; it must be " + rule);
    }
    out = std::move(text);
  }

  void read_name(const node& value, const path& at, std::string& out) {
    read_matching(value, at, name_bytes_max, "[a-z]([-a-z0-9]*[a-z0-9])?",
                  "lower case letters, digits and '-', beginning with a letter", out);
  }

  void read_quantity(const node& value, const path& at, std::string& out) {
    // Numbers are usual here, with and without quotes.
    const std::string text = value.IsScalar() ? value.Scalar() : "";
    constexpr std::size_t longest = 32;
    if (text.size() > longest || !std::regex_match(text, std::regex("[0-9]+(\\.[0-9]+)?(m|[kMGT]i?|Ki)?"))) {
      return problem(at, "must be a quantity such as 2, 500m or 16Gi");
    }
    out = text;
  }

  template <typename Number>
  void read_number(const node& value, const path& at, std::uint32_t low, std::uint32_t high, Number& out) {
    const std::string text = value.IsScalar() ? value.Scalar() : "";
    std::uint32_t number = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, number);
    if (text.empty() || parsed.ec != std::errc{} || parsed.ptr != end || number < low || number > high) {
      return problem(at,
                     "must be a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    }
    out = number;
  }

  void read_bool(const node& value, const path& at, bool& out) {
    const bool plain = value.IsScalar() && value.Tag() != "!";
    if (!plain || (value.Scalar() != "true" && value.Scalar() != "false")) {
      return problem(at, "must be true or false");
    }
    out = value.Scalar() == "true";
  }

  void read_list(const node& value, const path& at, std::size_t items_max, const action& item) {
    if (!value.IsSequence()) return problem(at, "must be a list");
    if (value.size() > items_max) {
      return problem(at, "has more than " + std::to_string(items_max) + " items");
    }
    std::size_t index = 0;
    for (const auto& entry : value) item(entry, at + "[" + std::to_string(index++) + "]");
  }

  void read_texts(const node& value, const path& at, std::vector<std::string>& out) {
    std::vector<std::string> texts;
    read_list(value, at, list_items_max, [&](const node& item, const path& inner) {
      read_text(item, inner, text_bytes_max, texts.emplace_back(), true);
    });
    out = std::move(texts);
  }

  void read_environment(const node& value, const path& at) {
    read_list(value, at, environment_max, [this](const node& item, const path& inner) {
      environment_entry entry;
      read_map(item, inner,
               {{"name",
                 [&](const node& v, const path& p) {
                   read_matching(v, p, 256, "[A-Za-z_][A-Za-z0-9_]*", "a name of a variable", entry.name);
                 }},
                {"value",
                 [&](const node& v, const path& p) { read_text(v, p, text_bytes_max, entry.value, true); }}});
      if (item.IsMap() && !item["name"]) problem(inner + ".name", "is missing");
      out_.spec.environment.push_back(std::move(entry));
    });
  }

  void read_times(const node& value, const path& at, probe_times& out) {
    read_map(
        value, at,
        {{"periodSeconds", [&](const node& v, const path& p) { read_number(v, p, 1, 3'600, out.period); }},
         {"timeoutSeconds", [&](const node& v, const path& p) { read_number(v, p, 1, 600, out.timeout); }},
         {"failureThreshold",
          [&](const node& v, const path& p) { read_number(v, p, 1, 100'000, out.failures); }}});
  }

  void read_probes(const node& value, const path& at) {
    auto& probes = out_.spec.probes;
    if (value.IsScalar()) {
      if (value.Scalar() == "seed") {
        probes = planned_probes();
      } else if (value.Scalar() != "default") {
        problem(at, "must be default, seed, or a map of probes");
      }
      return;
    }
    const auto times = [this](probe_times& out) {
      return [this, &out](const node& v, const path& p) { read_times(v, p, out); };
    };
    read_map(value, at,
             {{"startup", times(probes.startup)},
              {"liveness", times(probes.liveness)},
              {"readiness", times(probes.readiness)},
              {"holderStartup", times(probes.holder_startup)}});
  }

  void read_model(const node& value, const path& at) {
    auto& model = out_.spec.model.emplace();
    const char* const absolute = "/[^:]*";
    read_map(
        value, at,
        {{"persistentVolumeClaim",
          [&](const node& v, const path& p) {
            read_matching(v, p, 253, "[a-z0-9]([-a-z0-9.]*[a-z0-9])?", "the name of a claim", model.claim);
          }},
         {"hostPath",
          [&](const node& v, const path& p) {
            read_matching(v, p, text_bytes_max, absolute, "an absolute path", model.host_path);
          }},
         {"mountPath", [&](const node& v, const path& p) {
            read_matching(v, p, text_bytes_max, absolute, "an absolute path without ':'", model.mount_path);
          }}});
    if (value.IsMap() && model.claim.empty() == model.host_path.empty()) {
      problem(at, "needs one of persistentVolumeClaim and hostPath");
    }
  }

  void read_limits(const node& value, const path& at) {
    auto& spec = out_.spec;
    read_map(value, at,
             {{"gpu", [&](const node& v, const path& p) { read_number(v, p, 0, 16, spec.gpus); }},
              {"cpu", [&](const node& v, const path& p) { read_quantity(v, p, spec.cpu); }},
              {"memory", [&](const node& v, const path& p) { read_quantity(v, p, spec.memory); }}});
  }

  fields service_fields() {
    auto all = names_and_numbers();
    auto more = what_runs();
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    return all;
  }

  fields names_and_numbers() {
    auto& spec = out_.spec;
    const auto nested = [this](std::string_view name, action read) {
      return [this, name, read](const node& v, const path& p) { read_map(v, p, {{name, read}}); };
    };
    return {
        {"name", [&](const node& v, const path& p) { read_name(v, p, spec.name); }},
        {"componentType",
         [&](const node& v, const path& p) {
           read_matching(v, p, 32, "worker|frontend", "worker or frontend", spec.component_type);
         }},
        {"replicas", [&](const node& v, const path& p) { read_number(v, p, 0, 1'000, spec.replicas); }},
        {"failover",
         nested("enabled", [&](const node& v, const path& p) { read_bool(v, p, spec.failover); })},
        {"multinode",
         nested("nodeCount", [&](const node& v, const path& p) { read_number(v, p, 1, 1'000, spec.nodes); })},
        {"resources", nested("limits", [&](const node& v, const path& p) { read_limits(v, p); })},
        {"dra", [&](const node& v, const path& p) { read_bool(v, p, spec.dra); }},
        {"port", [&](const node& v, const path& p) { read_number(v, p, 1'024, 65'535, spec.port); }},
        {"drainTimeout",
         [&](const node& v, const path& p) { read_number(v, p, 0, 3'600, spec.drain_timeout); }},
    };
  }

  fields what_runs() {
    auto& spec = out_.spec;
    return {
        {"image",
         [&](const node& v, const path& p) {
           read_matching(v, p, image_bytes_max, "[A-Za-z0-9][-A-Za-z0-9._/:@]*", "the name of an image",
                         spec.image);
         }},
        {"command",
         [&](const node& v, const path& p) {
           read_texts(v, p, spec.command);
           if (v.IsSequence() && spec.command.empty()) problem(p, "must not be empty");
         }},
        {"args", [&](const node& v, const path& p) { read_texts(v, p, spec.args); }},
        {"workingDir",
         [&](const node& v, const path& p) {
           read_matching(v, p, text_bytes_max, "/.*", "an absolute path", spec.working_dir);
         }},
        {"env", [&](const node& v, const path& p) { read_environment(v, p); }},
        {"model", [&](const node& v, const path& p) { read_model(v, p); }},
        {"probes", [&](const node& v, const path& p) { read_probes(v, p); }},
    };
  }

  read_pod_result out_;
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
    return {{}, {"the file is no YAML: line " + std::to_string(e.mark.line + 1) + ": " + shown(e.msg)}};
  }
}

}  // namespace orcd::app
