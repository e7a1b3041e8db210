#include "app/weights/weights_record.hpp"

#include <array>
#include <utility>

namespace orcd::app {
namespace {

constexpr std::string_view first_line = "worker-orcd weights 2\n";

using field = std::pair<std::string_view, std::string weights_record::*>;
constexpr std::array<field, 5> fields{{{"numerics ", &weights_record::numerics},
                                       {"gpu ", &weights_record::gpu},
                                       {"files ", &weights_record::files},
                                       {"digest ", &weights_record::digest},
                                       {"pages ", &weights_record::pages}}};

}  // namespace

std::string to_text(const weights_record& record) {
  std::string out(first_line);
  for (const auto& [name, member] : fields) {
    out += name;
    out += record.*member;
    out += '\n';
  }
  return out;
}

std::optional<weights_record> weights_record_of(std::string_view text) {
  if (text.substr(0, first_line.size()) != first_line) return std::nullopt;
  text.remove_prefix(first_line.size());
  weights_record out;
  for (const auto& [name, member] : fields) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos || text.substr(0, name.size()) != name) return std::nullopt;
    out.*member = text.substr(name.size(), end - name.size());
    text.remove_prefix(end + 1);
  }
  if (!text.empty()) return std::nullopt;
  return out;
}

std::optional<std::string> difference(const weights_record& own, const weights_record& others,
                                      const digest_function& own_digest) {
  if (own.numerics != others.numerics)
    return "were made by a version that answers otherwise, or for other options";
  if (!own.gpu.empty() && own.gpu != others.gpu) return "are in the memory of GPU " + others.gpu;
  if (!own.files.empty() && own.files == others.files) return std::nullopt;
  if (others.digest.empty()) return "are of another file, whose digest is not known";
  const auto digest = own_digest();
  if (digest && *digest == others.digest) return std::nullopt;
  return "are of another model: its file has the digest " + others.digest + ", this engine's has " +
         digest.value_or("none yet");
}

}  // namespace orcd::app
