// The options of LoRA adapters: which are loaded at the start, and whether clients may have more loaded.
#include <algorithm>

#include "app/options/option_table.hpp"
#include "engine/accelerator.hpp"
#include "engine/lora/adapter_limits.hpp"
#include "net/models/adapter_list.hpp"

namespace orcd::app {
namespace {

constexpr std::size_t path_bytes_max = engine::adapter_limits::path_bytes;

std::string path_lengths() {
  return "1 to " + std::to_string(path_bytes_max) + " bytes";
}

/// Splits "NAME=PATH[:SCALE]". What stands behind the last ':' is a scale where it is a number; else it is
/// part of the path.
std::optional<adapter_option> read_adapter(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  adapter_option out;
  out.name = text.substr(0, equals);
  std::string_view path = text.substr(equals + 1);
  if (const auto colon = path.rfind(':'); colon != std::string_view::npos) {
    if (const auto scale = parse_real(path.substr(colon + 1))) {
      if (!(*scale >= -net::adapter_scale_max && *scale <= net::adapter_scale_max)) return std::nullopt;
      out.scale = static_cast<float>(*scale);
      path = path.substr(0, colon);
    }
  }
  out.path = path;
  const bool good = net::is_adapter_name(out.name) && !path.empty() && path.size() <= path_bytes_max;
  return good ? std::optional(std::move(out)) : std::nullopt;
}

requirement assign_adapters(std::string_view value, options& out) {
  std::vector<adapter_option> all;
  for (std::string_view rest = value; !rest.empty() || all.empty();) {
    const auto comma = rest.find(',');
    auto one = read_adapter(rest.substr(0, comma));
    if (!one) {
      return "must be NAME=PATH[:SCALE], several with commas between: names of 1 to 256 bytes, paths of " +
             path_lengths() + ", both without commas, scales from -100 to 100";
    }
    if (one->scale == 0.0F) {
      return "must not have the scale 0, of '" + one->name +
             "': it would be that of requests that name it, too; --lora-init-without-apply applies adapters "
             "only to requests that ask";
    }
    const bool twice =
        std::any_of(all.begin(), all.end(), [&](const auto& other) { return other.name == one->name; });
    if (twice) return "must not have the name '" + one->name + "' twice";
    all.push_back(std::move(*one));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) return "must not end with a comma";
  }
  if (all.size() > engine::adapters_max) {
    return "must have " + std::to_string(engine::adapters_max) + " adapters at most, it has " +
           std::to_string(all.size());
  }
  out.adapters.at_start = std::move(all);
  return std::nullopt;
}

option_row number(const char* name, std::uint32_t adapter_options::*member, std::uint32_t most,
                  const std::string& text, const std::string& standard) {
  return {"", name, "N", text + " (1 to " + std::to_string(most) + ", default " + standard + ")",
          [member, most](std::string_view value, options& out) -> requirement {
            const auto count = parse_unsigned(value);
            if (!count || *count < 1 || *count > most) {
              return "must be an integer, 1 to " + std::to_string(most);
            }
            out.adapters.*member = static_cast<std::uint32_t>(*count);
            return std::nullopt;
          }};
}

requirement assign_folder(std::string_view value, options& out) {
  if (value.empty() || value.size() > path_bytes_max) return "must be a path of " + path_lengths();
  out.adapters.folder = value;
  return std::nullopt;
}

requirement assign_unapplied(std::string_view value, options& out) {
  if (value != "true" && value != "false") return "must be true or false";
  out.adapters.unapplied = value == "true";
  return std::nullopt;
}

}  // namespace

std::vector<option_row> lora_rows() {
  return {
      {"", "lora", "NAME=PATH[:SCALE]",
       "LoRA adapter: a GGUF or TRLA file or a PEFT directory, the name that requests may have as their "
       "model, and how strongly it is applied (default 1); may be repeated or a list with commas between "
       "(default: none)",
       assign_adapters, "", "", true},
      number("max-loras", &adapter_options::count, engine::adapters_max,
             "LoRA adapters that there is room for", "those of --lora, with --allow-lora-load at least 1"),
      number("max-lora-rank", &adapter_options::rank, engine::adapter_limits().rank,
             "Highest rank of a LoRA adapter", "the highest of --lora, with --allow-lora-load at least 16"),
      {"", "allow-lora-load", "DIR",
       "Let clients have LoRA adapters from below DIR loaded, and unloaded (default: they may not)",
       assign_folder},
      {"", "lora-init-without-apply", "true|false",
       "Apply the adapters of --lora only to requests that ask for them (default false)", assign_unapplied,
       "true"},
  };
}

engine::result<void> check_adapters(const options& o) {
  const auto refuse = [](std::string text, const char* option) {
    return engine::error(engine::errc::invalid_request, std::move(text), option);
  };
  const adapter_options& adapters = o.adapters;
  const std::size_t given = adapters.at_start.size();
  const bool may_load = !adapters.folder.empty();
  if (adapters.count > 0 && adapters.count < given) {
    return refuse("--max-loras is " + std::to_string(adapters.count) + ", but --lora has " +
                      std::to_string(given) + " adapters",
                  "max-loras");
  }
  if (adapters.count > given && !may_load) {
    return refuse("--max-loras is " + std::to_string(adapters.count) + ", but --lora has " +
                      std::to_string(given) + " adapters, and more come only with --allow-lora-load",
                  "max-loras");
  }
  if (adapters.rank > 0 && given == 0 && !may_load) {
    return refuse("--max-lora-rank is for adapters, which need --lora or --allow-lora-load", "max-lora-rank");
  }
  if (!adapters.unapplied && given > engine::active_adapters_max) {
    return refuse("--lora has " + std::to_string(given) +
                      " adapters that every request would have, which may be " +
                      std::to_string(engine::active_adapters_max) +
                      ": --lora-init-without-apply applies them only to requests that ask",
                  "lora");
  }
  return {};
}

}  // namespace orcd::app
