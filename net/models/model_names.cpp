#include "net/models/model_names.hpp"

#include <algorithm>
#include <string>

#include "net/json/json_value.hpp"
#include "net/json/text.hpp"

namespace orcd::net {
namespace {

std::string_view without_suffix(std::string_view name) {
  constexpr std::string_view suffix = ".gguf";
  const bool has =
      name.size() > suffix.size() && same_ignoring_case(name.substr(name.size() - suffix.size()), suffix);
  return has ? name.substr(0, name.size() - suffix.size()) : name;
}

bool ends_at_slash(std::string_view whole, std::string_view end) {
  if (end.empty() || whole.size() <= end.size() || whole[whole.size() - end.size() - 1] != '/') return false;
  return same_ignoring_case(whole.substr(whole.size() - end.size()), end);
}

bool is_same_model(std::string_view asked, std::string_view name) {
  asked = without_suffix(asked);
  name = without_suffix(name);
  return same_ignoring_case(asked, name) || ends_at_slash(asked, name) || ends_at_slash(name, asked);
}

}  // namespace

std::vector<std::string_view> model_ids(const engine::worker_identity& served) {
  std::vector<std::string_view> out{served.model_name};
  out.insert(out.end(), served.model_aliases.begin(), served.model_aliases.end());
  return out;
}

std::optional<std::string_view> find_model_id(const engine::worker_identity& served, std::string_view asked) {
  const auto ids = model_ids(served);
  const auto exact = std::find(ids.begin(), ids.end(), asked);
  if (exact != ids.end()) return *exact;
  const auto found =
      std::find_if(ids.begin(), ids.end(), [asked](std::string_view id) { return is_same_model(asked, id); });
  if (found != ids.end()) return *found;
  if (served.any_model_name || is_same_model(asked, served.model_file)) return ids.front();
  return std::nullopt;
}

bool names_the_model(const engine::worker_identity& served, std::string_view name) {
  if (is_same_model(name, served.model_file)) return true;
  const auto ids = model_ids(served);
  return std::any_of(ids.begin(), ids.end(), [name](std::string_view id) { return is_same_model(name, id); });
}

engine::result<const served_adapter*> find_model(const engine::worker_identity& served,
                                                 const shared_adapters& adapters, std::string_view asked) {
  const served_adapter* const adapter = find_adapter(adapters, asked);
  if (adapter != nullptr || find_model_id(served, asked)) return adapter;
  return engine::error(engine::errc::not_found,
                       "there is no model '" + shown_name(asked) + "', this worker serves '" +
                           served.model_name + "' (GET /v1/models; --model-name gives it further names)",
                       "model");
}

engine::result<void> check_model_name(const engine::worker_identity& served, std::string_view asked,
                                      const shared_adapters& adapters) {
  const auto found = find_model(served, adapters, asked);
  return found ? engine::result<void>() : found.error();
}

}  // namespace orcd::net
