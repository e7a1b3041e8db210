#include "app/identity/option_effects.hpp"

#include <array>

namespace orcd::app {
namespace {

using opts_t = const options&;
using enum option_effect;

template <auto Member>
std::string number(opts_t opts) {
  return std::to_string(static_cast<std::uint64_t>(opts.*Member));
}

template <auto Member>
constexpr option_row_effect decides(std::string_view name) {
  return {name, identity, number<Member>};
}

std::string origins(opts_t opts) {
  std::string out;
  for (const auto& origin : opts.cors_origins) out += origin + '\n';
  return out;
}

std::string pooling(opts_t opts) {
  return opts.pooling ? std::to_string(static_cast<int>(*opts.pooling)) : "";
}

std::string keeps_responses(opts_t opts) {
  return opts.response_store_mib > 0 ? "true" : "false";
}

std::string replays(opts_t opts) {
  return std::to_string(opts.failover.replays);
}

/// A value that a request may leave to the worker; nothing where the model's file decides, which is another
/// part.
template <auto Member>
std::string left_to_us(opts_t opts) {
  const auto& value = opts.sampling.*Member;
  return value ? std::to_string(*value) : "";
}

template <auto Member>
constexpr option_row_effect decides_where_left(std::string_view name) {
  return {name, identity, left_to_us<Member>};
}

/// The next engine reads the request again, and its media.
template <auto Member>
std::string of_media(opts_t opts) {
  return std::to_string(opts.media.*Member);
}

template <auto Member>
constexpr option_row_effect decides_of_media(std::string_view name) {
  return {name, identity, of_media<Member>};
}

std::string seed(opts_t opts) {
  return opts.seed ? std::to_string(*opts.seed) : "";
}

std::string template_kwargs(opts_t opts) {
  return opts.template_kwargs;
}

std::string reasoning_budget(opts_t opts) {
  return opts.reasoning_budget ? std::to_string(*opts.reasoning_budget) : "";
}

std::string reasoning(opts_t opts) {
  return opts.reasoning ? (*opts.reasoning ? "on" : "off") : "";
}

constexpr std::string_view weights = "the weights";
constexpr std::string_view template_part = "the chat template";
constexpr std::string_view tokenizer = "the tokenizer";
constexpr std::string_view rope = "the RoPE tables";
constexpr std::string_view adapters = "the LoRA adapters";
constexpr std::string_view context_part = "the context";
constexpr std::string_view where = "where it computes, not what";
constexpr std::string_view memory = "how much memory there is, which changes when a request is computed";
constexpr std::string_view prefixes = "which prefixes need not be computed again";
constexpr std::string_view reached = "how the worker is reached or found";
constexpr std::string_view admits = "whether a request is let in: one that was stays in";
constexpr std::string_view watches = "what the worker tells of itself";
constexpr std::string_view pair = "how engines follow one another";
constexpr std::string_view whole = "answers that are written at once";

constexpr std::array effects{
    option_row_effect{"worker-id", none, nullptr, reached},
    option_row_effect{"model", content, nullptr, weights},
    option_row_effect{"model-name", content, nullptr, "the model's names"},
    option_row_effect{"tokenizer", content, nullptr, tokenizer},
    option_row_effect{"tokenizer-pre", content, nullptr, tokenizer},
    option_row_effect{"chat-template", content, nullptr, template_part},
    option_row_effect{"no-default-template", content, nullptr, template_part},
    option_row_effect{"backend", content, nullptr, "the arithmetic"},
    option_row_effect{"gpu-device", none, nullptr, where},
    option_row_effect{"gpu-wait-sec", none, nullptr, where},
    option_row_effect{"no-pinned", none, nullptr, where},
    option_row_effect{"verify", none, nullptr, "whether a start is refused"},
    option_row_effect{"residency-check-sec", none, nullptr, watches},
    option_row_effect{"threads", none, nullptr, where},
    option_row_effect{"context", content, nullptr, context_part},
    option_row_effect{"slots", none, nullptr, memory},
    option_row_effect{"kv-cache-size-mb", none, nullptr, "whether a start is refused"},
    option_row_effect{"kv-type-k", content, nullptr, "the arithmetic"},
    option_row_effect{"kv-type-v", content, nullptr, "the arithmetic"},
    option_row_effect{"kv-tokens", none, nullptr, memory},
    option_row_effect{"prefix-boundaries", none, nullptr, memory},
    option_row_effect{"prefill-chunk", none, nullptr, "how many tokens a step has, which changes no bit"},
    option_row_effect{"no-prefix-cache", none, nullptr, prefixes},
    option_row_effect{"cache-min-tokens", none, nullptr, prefixes},
    option_row_effect{"speculate", none, nullptr, "how many tokens a step checks, which changes no bit"},
    option_row_effect{"imc-sessions", none, nullptr, prefixes},
    option_row_effect{"system-prompts", none, nullptr, prefixes},
    option_row_effect{"host", none, nullptr, reached},
    option_row_effect{"port", none, nullptr, reached},
    option_row_effect{"callback-url", none, nullptr, reached},
    option_row_effect{"public-uri", none, nullptr, reached},
    option_row_effect{"discovery-url", none, nullptr, reached},
    option_row_effect{"discovery-prefix", none, nullptr, reached},
    option_row_effect{"max-connections", travels, nullptr, admits},
    option_row_effect{"max-connections-per-address", travels, nullptr, admits},
    option_row_effect{"write-timeout-sec", none, nullptr, "how long a client may leave bytes unread"},
    decides<&options::max_body_bytes>("max-body-bytes"),
    option_row_effect{"metrics-compat", none, nullptr, watches},
    option_row_effect{"api-key-file", travels, nullptr, admits},
    option_row_effect{"cors-origins", identity, origins},
    option_row_effect{"allow-host", travels, nullptr, admits},
    option_row_effect{"trusted-proxies", none, nullptr, watches},
    option_row_effect{"no-page", none, nullptr, whole},
    option_row_effect{"api-ollama", travels, nullptr, admits},
    decides<&options::max_prompt_chars>("max-prompt-chars"),
    decides<&options::max_tokens_in>("max-tokens-in"),
    decides<&options::max_tokens_out>("max-tokens-out"),
    option_row_effect{"pooling", identity, pooling},
    option_row_effect{"ffn-activation", content, nullptr, "the arithmetic"},
    decides<&options::matryoshka>("matryoshka"),
    option_row_effect{"max-queue", travels, nullptr, admits},
    option_row_effect{"response-store-mib", identity, keeps_responses},
    decides<&options::inference_timeout_sec>("inference-timeout-sec"),
    decides<&options::allow_request_template>("allow-request-template"),
    decides<&options::parse_special_in_chat>("parse-special-in-chat"),
    option_row_effect{"slots-endpoint", none, nullptr, whole},
    decides<&options::strict_fields>("strict-fields"),
    decides<&options::no_null_usage>("no-null-usage"),
    decides<&options::deadlines>("deadline-mode"),
    option_row_effect{"drain-timeout", none, nullptr, "how long an engine that ends lets requests run"},
    decides_where_left<&engine::sampling_values::temperature>("temperature"),
    decides_where_left<&engine::sampling_values::top_k>("top-k"),
    decides_where_left<&engine::sampling_values::top_p>("top-p"),
    decides_where_left<&engine::sampling_values::min_p>("min-p"),
    decides_where_left<&engine::sampling_values::repetition_penalty>("repeat-penalty"),
    decides_where_left<&engine::sampling_values::presence_penalty>("presence-penalty"),
    decides_where_left<&engine::sampling_values::frequency_penalty>("frequency-penalty"),
    decides_where_left<&engine::sampling_values::repeat_last_n>("repeat-last-n"),
    decides_where_left<&engine::sampling_values::dry_multiplier>("dry-multiplier"),
    decides_where_left<&engine::sampling_values::dry_base>("dry-base"),
    decides_where_left<&engine::sampling_values::dry_allowed_length>("dry-allowed-length"),
    decides_where_left<&engine::sampling_values::dry_last_n>("dry-penalty-last-n"),
    decides_where_left<&engine::sampling_values::xtc_probability>("xtc-probability"),
    decides_where_left<&engine::sampling_values::xtc_threshold>("xtc-threshold"),
    decides_where_left<&engine::sampling_values::typical_p>("typical-p"),
    decides_where_left<&engine::sampling_values::top_n_sigma>("top-n-sigma"),
    decides_where_left<&engine::sampling_values::dynatemp_range>("dynatemp-range"),
    decides_where_left<&engine::sampling_values::dynatemp_exponent>("dynatemp-exp"),
    option_row_effect{"seed", identity, seed},
    option_row_effect{"chat-template-kwargs", identity, template_kwargs},
    option_row_effect{"reasoning", identity, reasoning},
    option_row_effect{"reasoning-budget", identity, reasoning_budget},
    option_row_effect{"lora", content, nullptr, adapters},
    option_row_effect{"max-loras", none, nullptr, memory},
    option_row_effect{"max-lora-rank", none, nullptr, memory},
    option_row_effect{"allow-lora-load", none, nullptr, "not beside other engines"},
    option_row_effect{"lora-init-without-apply", content, nullptr, adapters},
    option_row_effect{"mmproj", content, nullptr, "the projector"},
    decides_of_media<&media_options::image_tokens_max>("image-max-tokens"),
    decides_of_media<&media_options::image_bytes_max>("image-max-bytes"),
    decides_of_media<&media_options::image_pixels_max>("image-max-pixels"),
    decides_of_media<&media_options::audio_bytes_max>("audio-max-bytes"),
    decides_of_media<&media_options::audio_seconds_max>("audio-max-seconds"),
    decides_of_media<&media_options::images_max>("max-images"),
    option_row_effect{"media-cache-mb", none, nullptr, memory},
    option_row_effect{"rope-scaling", content, nullptr, rope},
    option_row_effect{"rope-freq-base", content, nullptr, rope},
    option_row_effect{"rope-freq-scale", content, nullptr, rope},
    option_row_effect{"yarn-ext-factor", content, nullptr, rope},
    option_row_effect{"yarn-attn-factor", content, nullptr, rope},
    option_row_effect{"yarn-beta-fast", content, nullptr, rope},
    option_row_effect{"yarn-beta-slow", content, nullptr, rope},
    option_row_effect{"yarn-orig-ctx", content, nullptr, rope},
    option_row_effect{"yarn-round-dims", content, nullptr, rope},
    option_row_effect{"failover-dir", none, nullptr, pair},
    option_row_effect{"failover-lock-path", none, nullptr, pair},
    option_row_effect{"engine-id", none, nullptr, pair},
    option_row_effect{"failover-lock-poll-ms", none, nullptr, pair},
    option_row_effect{"holder", none, nullptr, pair},
    option_row_effect{"share-weights", none, nullptr, where},
    option_row_effect{"standby-weights", none, nullptr, where},
    option_row_effect{"weights-dir", none, nullptr, where},
    option_row_effect{"remap-timeout-ms", none, nullptr, pair},
    option_row_effect{"standby-kv-tokens", none, nullptr, memory},
    option_row_effect{"failover-replays", identity, replays},
    option_row_effect{"system-port", none, nullptr, watches},
    option_row_effect{"system-enabled", none, nullptr, watches},
    option_row_effect{"waking-timeout-ms", none, nullptr, pair},
    option_row_effect{"starting-health", none, nullptr, watches},
    option_row_effect{"endpoint-health", none, nullptr, watches},
    option_row_effect{"otlp-endpoint", none, nullptr, watches},
    option_row_effect{"trace-ratio", none, nullptr, watches},
    option_row_effect{"log-format", none, nullptr, watches},
    option_row_effect{"log-level", none, nullptr, watches},
};

}  // namespace

std::span<const option_row_effect> option_effects() noexcept {
  return effects;
}

}  // namespace orcd::app
