// What an adapter's file will hold.
#include <boost/test/unit_test.hpp>

#include "app/quantize/image_plan.hpp"

using namespace orcd;
using namespace orcd::app;

namespace {

struct fixture {
  source_model source;
  model_sizes sizes;
  fixture() {
    sizes.hidden = sizes.hidden_original = 256;
    sizes.ffn = sizes.ffn_original = 384;
    sizes.heads = 4;
    sizes.kv_heads = 2;
    sizes.head_dim = 64;
    source.lora_scale = 0.5;
    source.targets.push_back(target(1, tensor_role::attn_k, 128));
  }

  static source_target target(std::uint32_t layer, tensor_role role, std::uint64_t out) {
    source_target t;
    t.layer = layer;
    t.role = role;
    t.file_name = "t";
    t.a = {source_type::bf16, 8, 256, {}};
    t.b = {source_type::f16, out, 8, {}};
    return t;
  }

  [[nodiscard]] std::string refusal(std::optional<std::uint32_t> rank = {}) const {
    const auto plan = plan_adapter(source, sizes, rank);
    BOOST_REQUIRE(!plan);
    return plan.error().message;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(adapter_plans, fixture)

BOOST_AUTO_TEST_CASE(halves_and_their_types) {
  for (const model_arch arch : {model_arch::bitnet, model_arch::llama}) {
    sizes.arch = arch;
    const auto plan = plan_adapter(source, sizes, 8);
    BOOST_REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
    BOOST_REQUIRE_EQUAL(plan->conversions.size(), 2U);
    const auto& a = plan->header.at(0);
    const auto& b = plan->header.at(1);
    BOOST_TEST(a.name == "blk.1.attn_k.weight.lora_a");
    BOOST_TEST((a.type == engine::ggml_type::bf16 && b.type == engine::ggml_type::f32));
    BOOST_TEST((b.extents == std::vector<std::uint64_t>{8, 128}));
    BOOST_TEST(plan->conversions[0].regroup == 0U);
    BOOST_TEST(plan->conversions[1].regroup == (arch == model_arch::llama ? 64U : 0U));
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_fit) {
  BOOST_TEST(refusal(4).find("'t.lora_A.weight' is [8, 256]; it must be [4, 256]") != std::string::npos);
  source.targets[0].b.rows = 256;
  BOOST_TEST(refusal().find("'t.lora_B.weight' is [256, 8]; it must be [128, 8]") != std::string::npos);
  source.targets[0].b.rows = 128;
  source.tensors.push_back({{tensor_role::attn_k, 0, false}, "k", tensor_action::repack, {}, 1.0F});
  BOOST_TEST(refusal().find("is of layer 1; the model's last is 0") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
