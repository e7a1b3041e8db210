#include "net/discovery/etcd_messages.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>

#include "net/json/base64.hpp"
#include "net/json/json_text.hpp"
#include "net/json/text.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using boost::system::error_code;
using engine::errc;
using engine::error;
using engine::result;

constexpr std::size_t url_bytes_max = 512;
constexpr std::size_t prefix_bytes_max = 512;
/// A lease that lives longer would keep a dead worker listed.
constexpr std::int64_t ttl_seconds_max = 3'600;

error refuse(std::string_view why) {
  return {errc::invalid_request, std::string(why), "discovery-url"};
}

error senseless(std::string_view what) {
  return {errc::invalid_request, "an answer without a proper " + std::string(what), "discovery-url"};
}

std::string base64(std::string_view bytes) {
  std::string out;
  append_base64(out, bytes);
  return out;
}

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number value = 0;
  const auto* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return value;
}

/// The object that a body is, up to a depth that no answer has.
result<json::object> object_of(std::string_view body) {
  json::parse_options options;
  options.max_depth = 8;
  error_code failed;
  auto value = json::parse(body, failed, {}, options);
  if (failed || !value.is_object()) return senseless("JSON object");
  return std::move(value.get_object());
}

const json::object* object_at(const json::object& object, std::string_view key) {
  const auto* const found = object.if_contains(key);
  return found == nullptr ? nullptr : found->if_object();
}

/// The gateway writes 64-bit numbers as strings, and leaves out those that are 0.
std::optional<std::int64_t> number_at(const json::object& object, std::string_view key) {
  const auto* const found = object.if_contains(key);
  if (found == nullptr) return 0;
  if (const auto* const text = found->if_string())
    return number_of<std::int64_t>({text->data(), text->size()});
  if (const auto* const number = found->if_int64()) return *number;
  return std::nullopt;
}

std::string text_at(const json::object& object, std::string_view key) {
  const auto* const found = object.if_contains(key);
  const auto* const text = found == nullptr ? nullptr : found->if_string();
  return text == nullptr ? std::string() : std::string(*text);
}

/// 0 where the value is not one of this program's.
std::uint64_t epoch_of(const std::string& encoded) {
  const auto value = decode_base64(encoded);
  if (!value) return 0;
  const auto object = object_of(*value);
  if (!object) return 0;
  const auto epoch = number_at(*object, "epoch");
  return epoch && *epoch > 0 ? static_cast<std::uint64_t>(*epoch) : 0;
}

std::string lease_body(std::int64_t lease) {
  std::string body;
  json_object out(body);
  out.text("ID", std::to_string(lease));
  out.close();
  return body;
}

}  // namespace

result<http_url> parse_etcd_url(std::string_view url) {
  constexpr std::string_view scheme = "etcd://";
  if (url.size() > url_bytes_max || !url.starts_with(scheme)) return refuse("must be etcd://HOST:PORT");
  const auto authority = url.substr(scheme.size());
  const bool bracketed = authority.starts_with('[');
  const auto end = bracketed ? authority.find(']') : std::min(authority.find(':'), authority.size());
  if (end == std::string_view::npos) return refuse("has an IPv6 address without its closing bracket");
  http_url out;
  out.host = bracketed ? authority.substr(1, end - 1) : authority.substr(0, end);
  const bool named = !out.host.empty() && std::all_of(out.host.begin(), out.host.end(), [&](char c) {
    return is_alphanumeric(c) || c == '.' || c == '-' || c == '_' || (bracketed && c == ':');
  });
  if (!named) return refuse("must be etcd://HOST:PORT, and HOST a name or an address");
  const auto rest = authority.substr(std::min(end + (bracketed ? 1 : 0), authority.size()));
  out.port = rest.empty() ? "2379" : std::string(rest.substr(1));
  const auto port = number_of<std::uint16_t>(out.port);
  if ((!rest.empty() && rest.front() != ':') || !port || *port == 0) {
    return refuse("has a port that is not a number from 1 to 65535");
  }
  out.authority = (bracketed ? "[" + out.host + "]" : out.host) + ":" + out.port;
  return out;
}

result<void> check_etcd_prefix(std::string_view prefix) {
  const bool printable =
      std::all_of(prefix.begin(), prefix.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (prefix.empty() || prefix.size() > prefix_bytes_max || !printable) {
    return refuse("must be 1 to 512 printable characters without spaces");
  }
  return {};
}

std::string etcd_key(std::string_view prefix, std::string_view worker_id) {
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  return std::string(prefix) + "/" + std::string(worker_id);
}

etcd_request etcd_grant(std::chrono::seconds ttl) {
  std::string body;
  json_object out(body);
  out.text("TTL", std::to_string(ttl.count()));
  out.close();
  return {"/v3/lease/grant", std::move(body)};
}

etcd_request etcd_read(std::string_view key) {
  std::string body;
  json_object out(body);
  out.text("key", base64(key));
  out.close();
  return {"/v3/kv/range", std::move(body)};
}

etcd_request etcd_put(std::string_view key, const discovery_entry& entry, std::uint64_t epoch,
                      std::int64_t lease, std::int64_t replaces) {
  std::string value;
  json_object told(value);
  told.text("uri", entry.uri).text("model", entry.model).integer("engine_id", entry.engine_id);
  told.integer("epoch", epoch);
  told.close();
  std::string compare;
  json_object condition(compare);
  condition.text("key", base64(key)).text("target", "MOD").text("result", "EQUAL");
  condition.text("mod_revision", std::to_string(replaces));
  condition.close();
  std::string put;
  json_object write(put);
  write.text("key", base64(key)).text("value", base64(value)).text("lease", std::to_string(lease));
  write.close();
  return {"/v3/kv/txn", "{\"compare\":[" + compare + "],\"success\":[{\"requestPut\":" + put + "}]}"};
}

etcd_request etcd_keep(std::int64_t lease) {
  return {"/v3/lease/keepalive", lease_body(lease)};
}

etcd_request etcd_revoke(std::int64_t lease) {
  return {"/v3/lease/revoke", lease_body(lease)};
}

result<granted_lease> read_granted(std::string_view body) {
  const auto object = object_of(body);
  if (!object) return object.error();
  const auto id = number_at(*object, "ID");
  const auto ttl = number_at(*object, "TTL");
  if (!id || *id <= 0) return senseless("lease");
  if (!ttl || *ttl <= 0 || *ttl > ttl_seconds_max) return senseless("time to live");
  return granted_lease{*id, std::chrono::seconds(*ttl)};
}

result<read_entry> read_found(std::string_view body, std::string_view key) {
  const auto object = object_of(body);
  if (!object) return object.error();
  const auto* const header = object_at(*object, "header");
  const auto revision = header == nullptr ? std::nullopt : number_at(*header, "revision");
  if (!revision || *revision <= 0) return senseless("revision");
  read_entry out;
  out.revision = *revision;
  const auto* const entries = object->if_contains("kvs");
  if (entries == nullptr) return out;
  const auto* const list = entries->if_array();
  if (list == nullptr || list->size() != 1 || !list->front().is_object()) return senseless("entry");
  const auto& found = list->front().get_object();
  const auto modified = number_at(found, "mod_revision");
  const auto lease = number_at(found, "lease");
  if (text_at(found, "key") != base64(key) || !modified || *modified <= 0 || !lease) {
    return senseless("entry");
  }
  out.entry = {epoch_of(text_at(found, "value")), *lease, *modified};
  return out;
}

result<bool> read_written(std::string_view body) {
  const auto object = object_of(body);
  if (!object) return object.error();
  if (object_at(*object, "header") == nullptr) return senseless("header");
  const auto* const succeeded = object->if_contains("succeeded");
  if (succeeded == nullptr) return false;
  if (!succeeded->is_bool()) return senseless("result");
  return succeeded->get_bool();
}

result<std::optional<std::chrono::milliseconds>> read_kept(std::string_view body, std::int64_t id) {
  const auto object = object_of(body);
  if (!object) return object.error();
  const auto* const told = object_at(*object, "result");
  const auto named = told == nullptr ? std::nullopt : number_at(*told, "ID");
  if (!named || *named != id) return senseless("lease");
  const auto ttl = number_at(*told, "TTL");
  if (!ttl || *ttl < 0 || *ttl > ttl_seconds_max) return senseless("time to live");
  if (*ttl == 0) return std::optional<std::chrono::milliseconds>();
  return std::optional<std::chrono::milliseconds>(std::chrono::seconds(*ttl));
}

}  // namespace orcd::net
