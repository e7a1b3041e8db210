// How fields of a SPEC are read: what each may be, and what is told where it is something else. Names are
// those that the Kubernetes API takes, so that nothing is generated which it would refuse.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/pod/pod_spec.hpp"

namespace orcd::app {

constexpr std::size_t pod_text_bytes_max = 4'096;
/// Of what the API calls a DNS subdomain and a DNS label.
constexpr std::size_t subdomain_bytes_max = 253;
constexpr std::size_t label_bytes_max = 63;

class field_reader {
 public:
  using node = YAML::Node;
  using path = std::string;
  using action = std::function<void(const node&, const path&)>;
  struct field {
    std::string_view name;
    action read;
  };
  using fields = std::vector<field>;

  void problem(const path& at, const std::string& text);
  [[nodiscard]] std::size_t problem_count() const noexcept { return problems_.size(); }
  [[nodiscard]] std::vector<std::string> take_problems() { return std::move(problems_); }

  /// Each key once, and none that is not among the fields.
  void read_map(const node& value, const path& at, const fields& known);
  /// A map without these fields is not enough.
  void need(const node& value, const path& at, std::initializer_list<const char*> names);
  /// A map with one field that is known: how a number or a word stands in a map of its own.
  [[nodiscard]] action nested(std::string_view name, action read);
  void read_list(const node& value, const path& at, std::size_t items_max, const action& item);
  /// A map of labels or the like: keys and values as the API has them for those.
  void read_labels(const node& value, const path& at, text_pairs& out);

  void read_text(const node& value, const path& at, std::size_t bytes_max, std::string& out,
                 bool may_be_empty = false);
  void read_texts(const node& value, const path& at, std::vector<std::string>& out);
  /// `rule` says in words what `pattern` takes.
  void read_matching(const node& value, const path& at, std::size_t bytes_max, const char* pattern,
                     const char* rule, std::string& out);
  void read_bool(const node& value, const path& at, bool& out);
  void read_number(const node& value, const path& at, std::uint32_t low, std::uint32_t high,
                   std::uint32_t& out);
  void read_quantity(const node& value, const path& at, std::string& out);
  /// Of objects such as Secrets, ConfigMaps and PersistentVolumeClaims.
  void read_object_name(const node& value, const path& at, std::string& out);
  /// Of a Secret or a ConfigMap.
  void read_data_key(const node& value, const path& at, std::string& out);
  void read_label_key(const node& value, const path& at, std::string& out);
  void read_label_value(const node& value, const path& at, std::string& out);

 private:
  std::vector<std::string> problems_;
};

/// A piece of the file for a message: short, and nothing that a terminal obeys.
[[nodiscard]] std::string shown_piece(std::string_view text);

/// What a list of variables says.
void read_environment(field_reader& reader, const field_reader::node& value, const field_reader::path& at,
                      std::vector<environment_entry>& out);
/// Where pods run and what of the cluster they use.
[[nodiscard]] field_reader::fields cluster_fields(field_reader& reader, pod_spec& spec);

}  // namespace orcd::app
