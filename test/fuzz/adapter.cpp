// Arbitrary bytes as an adapter of a small model: GGUF and TRLA as they are; anything else is taken for
// adapter_config.json, a NUL byte and a safetensors file. Oracles beside the sanitizers: no single allocation
// is larger than a small multiple of the input, and what is accepted is as its header says.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

#include "engine/base/ensure.hpp"
#include "engine/lora/read_adapter.hpp"
#include "test/fuzz/allocation_limit.hpp"
#include "test/support/tiny_model.hpp"

namespace {

using namespace orcd;

using orcd::fuzz::allowed;

/// Heads of eight dimensions, so that rows are moved, and few values.
struct small_model {
  static test::bytes make() {
    test::tiny_model_options options;
    options.layers = 2;
    options.embedding = 32;
    options.ffn = 32;
    return test::make_tiny_model(options);
  }
  test::bytes image = make();
  engine::gguf_file file = engine::gguf_file::parse(image, "base").value();
  engine::model model = engine::load_model(file).value();
};

void check(const engine::lora_adapter& adapter, std::size_t size) {
  ORCD_ENSURE(!adapter.pairs.empty() && adapter.digest.size() == 64);
  std::uint64_t at = 0;
  std::uint32_t rank_max = 0;
  for (const engine::lora_pair& pair : adapter.pairs) {
    ORCD_ENSURE(pair.rank >= 1 && pair.rank <= 512 && std::isfinite(pair.scale) && pair.layer < 2);
    ORCD_ENSURE(pair.a_at == at && pair.b_at == at + std::uint64_t{pair.rank} * pair.in);
    at = pair.b_at + std::uint64_t{pair.rank} * pair.out;
    rank_max = std::max(rank_max, pair.rank);
  }
  ORCD_ENSURE(at == adapter.values.size() && at <= size && rank_max == adapter.rank_max);
  ORCD_ENSURE(
      std::all_of(adapter.values.begin(), adapter.values.end(), [](float v) { return std::isfinite(v); }));
}

engine::result<engine::lora_adapter> read(std::span<const std::byte> image, const engine::model& base) {
  const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  if (text.starts_with("GGUF") || text.starts_with("TRLA")) {
    return engine::read_adapter_image(image, "fuzz", base);
  }
  const std::size_t nul = std::min(text.find('\0'), text.size());
  return engine::read_peft_adapter(text.substr(0, nul), image.subspan(std::min(nul + 1, text.size())), "fuzz",
                                   base);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const small_model base;
  allowed = 48 * size + 65'536;
  {
    const auto adapter = read(std::as_bytes(std::span(data, size)), base.model);
    if (adapter) {
      check(*adapter, size);
    } else {
      ORCD_ENSURE(!adapter.error().message.empty() && adapter.error().message.size() <= 4096);
      ORCD_ENSURE(adapter.error().message.find('\n') == std::string::npos);
      ORCD_ENSURE(adapter.error().param == "lora");
    }
  }
  allowed = SIZE_MAX;
  return 0;
}
