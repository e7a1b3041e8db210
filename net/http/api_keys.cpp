#include "net/http/api_keys.hpp"

#include <algorithm>
#include <span>

#include "engine/base/sha256.hpp"
#include "net/json/text.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

/// Compares every character, so that the time does not tell where two keys differ.
bool same(std::string_view a, std::string_view b) noexcept {
  unsigned difference = a.size() == b.size() ? 0U : 1U;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

/// Digits of a key's digest; enough that no two keys of one file have the same id.
constexpr std::size_t key_id_digits = 32;

/// What stands behind the scheme of an Authorization header.
std::optional<std::string_view> bearer_of(std::string_view authorization) {
  constexpr std::string_view scheme = "bearer ";
  if (!same_ignoring_case(authorization.substr(0, scheme.size()), scheme)) return std::nullopt;
  return authorization.substr(scheme.size());
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= api_keys::name_bytes_max &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alphanumeric(c) || c == '.' || c == '_' || c == '-'; });
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

constexpr std::string_view role_field = "role=";

std::optional<key_role> role_of(std::string_view word) {
  for (const auto role : {key_role::inference, key_role::operations}) {
    if (word == to_string(role)) return role;
  }
  return std::nullopt;
}

/// The words of a line, one more than one may have where it has too many.
std::vector<std::string_view> words_in(std::string_view line) {
  constexpr std::string_view gaps = " \t";
  constexpr std::size_t words_max = 3;
  std::vector<std::string_view> out;
  while (!line.empty() && out.size() <= words_max) {
    const auto end = line.find_first_of(gaps);
    out.push_back(line.substr(0, end));
    line = end == std::string_view::npos ? std::string_view() : trimmed(line.substr(end));
  }
  return out;
}

/// What stands behind a key: a name, a role, or first one and then the other.
struct key_words {
  std::string_view name;
  key_role role = key_role::inference;
};

/// Errors: what is wrong with the words, for behind "line N of the API key file".
result<key_words> read_key_words(std::span<const std::string_view> words) {
  key_words out;
  const auto refuse = [](const std::string& what) { return error(errc::invalid_request, what); };
  if (!words.empty() && words.back().starts_with(role_field)) {
    const auto role = role_of(words.back().substr(role_field.size()));
    if (!role) return refuse("has a role that is neither inference nor operator");
    out.role = *role;
    words = words.first(words.size() - 1);
  }
  if (words.empty()) return out;
  if (words.size() > 1 || !is_name(words.front())) {
    return refuse("has more than a key, a name of 1 to " + std::to_string(api_keys::name_bytes_max) +
                  " letters, digits and ._-, and role=inference or role=operator");
  }
  out.name = words.front();
  return out;
}

}  // namespace

std::string_view to_string(key_role role) noexcept {
  return role == key_role::operations ? "operator" : "inference";
}

std::string scoped_job_id(const key_owner& owner, const std::string& job_id) {
  return owner.key_id.empty() ? job_id : owner.key_id + ":" + job_id;
}

// Names and ids hold no colon, so that the two forms of a salt can never be equal.
std::string scoped_salt(const key_owner& owner, const std::string& salt) {
  if (owner.key_id.empty()) return salt;
  return salt.empty() ? "key:" + owner.key_id : "tenant:" + owner.tenant + ":" + salt;
}

result<api_keys> api_keys::parse(std::string_view text) {
  api_keys out;
  std::size_t number = 0;
  const auto refuse = [&number](const std::string& what) {
    return error(errc::invalid_request, "line " + std::to_string(number) + " of the API key file " + what,
                 "api-key-file");
  };
  while (!text.empty()) {
    ++number;
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = trimmed(line);
    if (line.empty() || line.front() == '#') continue;
    const auto words = words_in(line);
    const auto shown = words.front();
    if (shown.size() > bytes_max)
      return refuse("has a key of more than " + std::to_string(bytes_max) + " bytes");
    if (!is_printable(shown)) return refuse("has a key with a character that is not printable ASCII");
    const auto behind = read_key_words(std::span(words).subspan(1));
    if (!behind) return refuse(behind.error().message);
    const std::string_view name = behind->name;
    if (out.keys_.size() == count_max)
      return refuse("is one key too many, " + std::to_string(count_max) + " fit");
    key made{engine::sha256_of(shown), {}};
    const auto twice = [&made](const key& other) { return other.digest == made.digest; };
    if (std::any_of(out.keys_.begin(), out.keys_.end(), twice)) return refuse("has a key a second time");
    made.owner.key_id = made.digest.substr(0, key_id_digits);
    made.owner.tenant = name.empty() ? made.owner.key_id : std::string(name);
    made.owner.label = name.empty() ? "line " + std::to_string(number) : std::string(name);
    made.owner.role = behind->role;
    out.keys_.push_back(std::move(made));
  }
  if (out.keys_.empty()) return error(errc::invalid_request, "the API key file has no key", "api-key-file");
  return out;
}

const api_keys::key* api_keys::find(std::string_view shown) const {
  const std::string digest = engine::sha256_of(trimmed(shown));
  const key* found = nullptr;
  for (const key& one : keys_) found = same(one.digest, digest) ? &one : found;
  return found;
}

std::optional<key_owner> api_keys::owner_of(std::string_view authorization,
                                            std::string_view x_api_key) const {
  if (keys_.empty()) return key_owner();
  const key* found = nullptr;
  if (const auto bearer = bearer_of(authorization)) found = find(*bearer);
  if (found == nullptr && !x_api_key.empty()) found = find(x_api_key);
  if (found == nullptr) return std::nullopt;
  return found->owner;
}

key_owner api_keys::owner_elsewhere(std::string_view authorization, std::string_view x_api_key) {
  const std::string_view shown = bearer_of(authorization).value_or(x_api_key);
  if (shown.empty()) return {};  // that engine asked for none
  const std::string id = engine::sha256_of(trimmed(shown)).substr(0, key_id_digits);
  return {id, id, "a key of the engine before", key_role::inference};
}

bool api_keys::has_operator() const noexcept {
  return std::any_of(keys_.begin(), keys_.end(),
                     [](const key& one) { return one.owner.role == key_role::operations; });
}

}  // namespace orcd::net
