// Weights that several engines share: the same bits as from the file, in every process; there once; and what
// is not this model's, or damaged, is refused.
#include <fcntl.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "gpu/memory/arena_hash.hpp"
#include "gpu/memory/memfd_driver.hpp"
#include "test/unit/gpu/child_process.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

namespace orcd::test {
namespace {

using engine::slot_id;
using logits_list = std::vector<std::vector<float>>;

constexpr std::uint32_t prompt_tokens = 21;
constexpr std::uint32_t decoded_tokens = 3;

template <class Change>
tiny_model_options tiny(Change change) {
  tiny_model_options options;
  change(options);
  return options;
}

gpu::host_backend_options one_thread() {
  gpu::host_backend_options options;
  options.threads = 1;
  return options;
}

const tiny_model_options plain;
/// Enough weights to be seen among other memory.
const auto large = tiny([](auto& o) { o.embedding = 512, o.ffn = 4096; });

engine::weight_source shared() {
  return {.share = true};
}

engine::weight_source imported(const engine::shared_weights& from) {
  return {.share = false, .imported = from};
}

logits_list logits_of(tiny_backend& backend) {
  return backend.generate(slot_id{0}, backend.prompt(prompt_tokens, 3), decoded_tokens, 16);
}

std::string raw(const logits_list& logits) {
  std::string out;
  for (const auto& row : logits) out.append(reinterpret_cast<const char*>(row.data()), row.size() * 4);
  return out;
}

/// Why an import fails.
std::optional<engine::error> refusal_of(const tiny_model_options& model, const engine::shared_weights& from) {
  const tiny_backend other(model);
  const auto loaded = load_again(other, imported(from));
  return loaded ? std::nullopt : std::optional(loaded.error());
}

void expect_stale(const std::optional<engine::error>& found, const std::string& why) {
  BOOST_REQUIRE_MESSAGE(found, "was accepted, where it should be said: " << why);
  BOOST_TEST((found->code == engine::errc::stale_weights));
  BOOST_TEST(found->message.find(why) != std::string::npos, found->message);
}

/// One mapping of this process as /proc/self/smaps tells of it, in KiB.
struct mapping_facts {
  std::string access;
  long size = 0, resident = 0, proportional = 0;
};

std::vector<mapping_facts> weights_mappings() {
  std::ifstream smaps("/proc/self/smaps");
  std::vector<mapping_facts> out;
  bool ours = false;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::string first, second;
    words >> first >> second;
    if (first.find('-') != std::string::npos) {
      ours = line.find("orcd-weights") != std::string::npos;
      if (ours) out.push_back({second});
    }
    if (!ours) continue;
    if (first == "Size:") out.back().size = std::stol(second);
    if (first == "Rss:") out.back().resident = std::stol(second);
    if (first == "Pss:") out.back().proportional = std::stol(second);
  }
  return out;
}

/// The writer's memory with one byte changed, as sealed as the original.
struct spoilt_copy {
  explicit spoilt_copy(const engine::shared_weights& from)
      : arena(gpu::memfd_driver::instance(), from.bytes), facts(from) {
    auto* const to = reinterpret_cast<char*>(arena.address());
    BOOST_REQUIRE_EQUAL(::pread(from.descriptor, to, from.bytes, 0), static_cast<ssize_t>(from.bytes));
    to[from.bytes / 2] = static_cast<char>(to[from.bytes / 2] ^ 4);
    arena.freeze();
    descriptor = arena.export_fd();
    facts.descriptor = descriptor.get();
  }
  gpu::arena_mapping arena;
  engine::file_descriptor descriptor;
  engine::shared_weights facts;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(shared_weights)

BOOST_AUTO_TEST_CASE(without_sharing_there_is_nothing_to_export_and_no_memory_file) {
  tiny_backend backend(plain);
  BOOST_TEST(backend.device().exported_weights() == nullptr);
  BOOST_TEST(weights_mappings().empty());
}

BOOST_AUTO_TEST_CASE(every_model_gives_the_same_bits_from_shared_weights) {
  for (const tiny_case& c : every_tiny_model()) {
    tiny_backend alone(c.options);
    tiny_backend writer(c.options, {}, 1, {}, shared());
    const auto* const exported = writer.device().exported_weights();
    BOOST_REQUIRE_MESSAGE(exported != nullptr, c.name);
    tiny_backend reader(c.options, {}, 1, {}, imported(*exported));
    BOOST_TEST(reader.device().exported_weights() == nullptr);
    const auto expected = logits_of(alone);
    BOOST_TEST(same_logits(logits_of(writer), expected), c.name);
    BOOST_TEST(same_logits(logits_of(reader), expected), c.name);
  }
}

BOOST_AUTO_TEST_CASE(encoders_share_too) {
  tiny_model_options bert;
  bert.family = "bert";
  tiny_backend writer(bert, {}, 1, {}, shared());
  BOOST_REQUIRE(writer.device().exported_weights() != nullptr);
  BOOST_TEST(!refusal_of(bert, *writer.device().exported_weights()));
}

BOOST_AUTO_TEST_CASE(an_importer_takes_nothing_from_its_file_but_the_plan) {
  const auto options = tiny([](auto& o) { o.tied_output = true; });
  tiny_backend writer(options, {}, 1, {}, shared());
  auto blank = make_tiny_writer(options);
  for (const auto& tensor : writer.model().weights.layers) {
    auto* const found = blank.find_tensor(std::string(tensor.ffn_down.name));
    std::fill(found->data.begin(), found->data.end(), std::byte{0});
  }
  tiny_backend reader(blank.build(), {}, 1, {}, imported(*writer.device().exported_weights()));
  BOOST_TEST(same_logits(logits_of(reader), logits_of(writer)));
}

BOOST_AUTO_TEST_CASE(another_process_computes_the_same_from_the_same_memory) {
  tiny_backend writer(large, {}, 1, {}, shared());
  const auto expected = raw(logits_of(writer));
  const engine::shared_weights weights = *writer.device().exported_weights();
  const auto child = run_in_child([&] {
    tiny_backend reader(large, one_thread(), 1, {}, imported(weights));
    return raw(logits_of(reader));
  });
  BOOST_TEST(child.signal == 0);
  BOOST_TEST(child.status == 0);
  BOOST_TEST((child.output == expected), "another output of " << child.output.size() << " bytes");
}

BOOST_AUTO_TEST_CASE(the_weights_are_in_memory_once_and_only_read) {
  tiny_backend writer(large, {}, 1, {}, shared());
  const engine::shared_weights weights = *writer.device().exported_weights();
  const auto kib = static_cast<long>(weights.bytes / 1024);
  const auto own = weights_mappings();
  BOOST_REQUIRE_EQUAL(own.size(), 1U);
  BOOST_TEST(own[0].access == "r--s");
  BOOST_TEST(own[0].resident == kib);
  const auto child = run_in_child([&] {
    // The copy of this process has the writer's mapping as well: two in the child, and one here.
    tiny_backend reader(large, one_thread(), 1, {}, imported(weights));
    std::ostringstream out;
    for (const auto& one : weights_mappings()) {
      out << one.access << ' ' << one.size << ' ' << one.resident << ' ' << one.proportional << '\n';
    }
    return out.str();
  });
  BOOST_TEST(child.status == 0);
  std::istringstream lines(child.output);
  int mappings = 0;
  for (mapping_facts one; lines >> one.access >> one.size >> one.resident >> one.proportional; ++mappings) {
    BOOST_TEST(one.access == "r--s");
    BOOST_TEST(one.size == kib);
    // Each page counts as half or less: it is mapped at least twice.
    BOOST_TEST(one.proportional <= one.resident / 2 + 4);
  }
  BOOST_TEST(mappings == 2);
}

BOOST_AUTO_TEST_CASE(a_reader_goes_on_when_the_writer_has_gone) {
  std::optional<tiny_backend> writer(std::in_place, plain, gpu::host_backend_options{}, 1, engine::kv_types{},
                                     shared());
  const auto expected = logits_of(*writer);
  tiny_backend reader(plain, {}, 1, {}, imported(*writer->device().exported_weights()));
  writer.reset();
  BOOST_TEST(same_logits(logits_of(reader), expected));
}

BOOST_AUTO_TEST_CASE(a_spoilt_byte_is_found) {
  tiny_backend writer(plain, {}, 1, {}, shared());
  const spoilt_copy spoilt(*writer.device().exported_weights());
  expect_stale(refusal_of(plain, spoilt.facts), "damaged");
}

BOOST_AUTO_TEST_CASE(a_load_after_an_import_that_failed_reads_the_file) {
  tiny_backend writer(plain, {}, 1, {}, shared());
  const spoilt_copy spoilt(*writer.device().exported_weights());
  engine::accelerator_config config{.slots = 1, .context_tokens = 128, .banned_tokens = {}};
  config.weights = imported(spoilt.facts);
  const auto device = gpu::make_host_backend();
  BOOST_TEST(
      (device->load(writer.model(), config, [](unsigned) {}).error().code == engine::errc::stale_weights));
  config.weights = shared();
  BOOST_TEST_REQUIRE(device->load(writer.model(), config, [](unsigned) {}).has_value());
  BOOST_TEST(device->exported_weights()->content_hash == writer.device().exported_weights()->content_hash);
}

BOOST_AUTO_TEST_CASE(another_models_weights_are_refused) {
  tiny_backend writer(plain, {}, 1, {}, shared());
  const auto& weights = *writer.device().exported_weights();
  BOOST_TEST(!refusal_of(plain, weights));
  expect_stale(refusal_of(tiny([](auto& o) { o.ffn = 256; }), weights), "another model or version");
  expect_stale(refusal_of(tiny([](auto& o) { o.matrix_type = engine::ggml_type::f16; }), weights),
               "another model or version");
  expect_stale(refusal_of(tiny([](auto& o) { o.tied_output = true; }), weights), "another model or version");
  expect_stale(refusal_of(tiny([](auto& o) { o.family = "qwen2"; }), weights), "another model or version");
  expect_stale(refusal_of(tiny([](auto& o) { o.layers = 3; }), weights), "another model or version");
}

BOOST_AUTO_TEST_CASE(memory_of_another_size_or_kind_is_refused) {
  tiny_backend writer(plain, {}, 1, {}, shared());
  const auto& weights = *writer.device().exported_weights();
  auto& driver = gpu::memfd_driver::instance();
  for (const std::uint64_t bytes : {weights.bytes - 4096, weights.bytes + 4096}) {
    gpu::arena_mapping other(driver, bytes);
    other.freeze();
    const auto descriptor = other.export_fd();
    auto wrong = weights;
    wrong.descriptor = descriptor.get();
    expect_stale(refusal_of(plain, wrong), "the model needs " + std::to_string(weights.bytes));
  }
  const gpu::arena_mapping unfinished(driver, weights.bytes);
  const auto descriptor = unfinished.export_fd();
  auto wrong = weights;
  wrong.descriptor = descriptor.get();
  expect_stale(refusal_of(plain, wrong), "not sealed");
  wrong.descriptor = -1;
  expect_stale(refusal_of(plain, wrong), "no memory file");
}

BOOST_AUTO_TEST_CASE(a_load_that_is_broken_off_leaves_no_memory_behind) {
  struct stop {};
  const tiny_backend source(plain);
  const auto device = gpu::make_host_backend();
  engine::accelerator_config config{.slots = 1, .context_tokens = 128, .banned_tokens = {}};
  config.weights = shared();
  const auto break_off = [](unsigned percent) {
    if (percent > 0) throw stop{};
  };
  BOOST_CHECK_THROW((void)device->load(source.model(), config, break_off), stop);
  BOOST_TEST(weights_mappings().empty());
  BOOST_TEST(device->exported_weights() == nullptr);
}

BOOST_AUTO_TEST_CASE(weights_that_were_unmapped_are_mapped_again_at_the_same_place) {
  tiny_backend writer(plain, {}, 1, {}, shared());
  const auto expected = logits_of(writer);
  const auto& exported = *writer.device().exported_weights();
  tiny_backend reader(plain, {}, 1, {}, imported(exported));
  BOOST_TEST(weights_mappings().size() == 2U);
  reader.device().unmap_weights();
  BOOST_TEST(weights_mappings().size() == 1U);
  BOOST_TEST_REQUIRE(reader.device().map_weights(exported).has_value());
  BOOST_TEST(same_logits(logits_of(reader), expected));
  // Whoever has loaded them can do the same, while others have the memory.
  const engine::file_descriptor kept(::fcntl(exported.descriptor, F_DUPFD_CLOEXEC, 0));
  auto of_others = exported;
  of_others.descriptor = kept.get();
  writer.device().unmap_weights();
  BOOST_TEST(writer.device().exported_weights()->descriptor == -1);
  BOOST_TEST_REQUIRE(writer.device().map_weights(of_others).has_value());
  BOOST_TEST(same_logits(logits_of(writer), expected));
}

BOOST_AUTO_TEST_CASE(other_weights_are_not_mapped_again) {
  tiny_backend writer(plain, {}, 1, {}, shared());
  const auto& exported = *writer.device().exported_weights();
  tiny_backend reader(plain, {}, 1, {}, imported(exported));
  reader.device().unmap_weights();
  const auto refusal = [&](const engine::shared_weights& from) -> std::optional<engine::error> {
    const auto mapped = reader.device().map_weights(from);
    return mapped ? std::nullopt : std::optional(mapped.error());
  };
  auto others = exported;
  others.layout_hash[0] = others.layout_hash[0] == '0' ? '1' : '0';
  expect_stale(refusal(others), "another model or version");
  auto nothing = exported;
  nothing.descriptor = -1;
  expect_stale(refusal(nothing), "no memory file");
  const spoilt_copy spoilt(exported);
  expect_stale(refusal(spoilt.facts), "damaged");
}

/// A check of many gigabytes takes minutes, in which a service manager hears of it and a signal can end it.
BOOST_AUTO_TEST_CASE(an_import_says_how_far_it_is_and_can_be_broken_off) {
  struct stop {};
  tiny_backend writer(large, {}, 1, {}, shared());
  const auto& weights = *writer.device().exported_weights();
  BOOST_TEST_REQUIRE(weights.bytes > 2 * gpu::hash_tile_bytes);
  engine::accelerator_config config{.slots = 1, .context_tokens = 128, .banned_tokens = {}};
  config.weights = imported(weights);
  std::vector<unsigned> told;
  const auto device = gpu::make_host_backend(one_thread());
  const auto listen = [&](unsigned percent) { told.push_back(percent); };
  BOOST_TEST_REQUIRE(device->load(writer.model(), config, listen).has_value());
  BOOST_TEST(
      std::any_of(told.begin(), told.end(), [](unsigned percent) { return percent > 0 && percent < 100; }));
  BOOST_TEST((std::is_sorted(told.begin(), told.end()) && told.back() == 100));
  const auto before = weights_mappings().size();
  const auto other = gpu::make_host_backend();
  const auto break_off = [](unsigned) { throw stop{}; };
  BOOST_CHECK_THROW((void)other->load(writer.model(), config, break_off), stop);
  BOOST_TEST(weights_mappings().size() == before);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
