// LoRA adapters on the GPU: near the host backend's logits, and bit for bit the same alone and beside others,
// with graphs and the decode program or without.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "gpu/cuda/cuda_backend.hpp"
#include "gpu/host/host_backend.hpp"
#include "test/gpu/cuda/generated_cuda_model.hpp"
#include "test/unit/gpu/adapter_rig.hpp"

namespace orcd::test {
namespace {

namespace data = boost::unit_test::data;

std::unique_ptr<engine::accelerator> on_gpu(gpu::cuda_backend_options options = {}) {
  options.keep_logits = true;
  options.end = gpu::device_end::keep;
  return gpu::make_cuda_backend(options);
}

bool same(const logits_list& a, const logits_list& b) {
  return !a.empty() && a == b;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_adapters)

// With int8 activations the f16 of attention's output on the GPU alone makes some integers others.
BOOST_DATA_TEST_CASE(adapters_give_the_hosts_logits, data::make(all_shape_names), name) {
  const bytes image = make_tiny_model(generated_shapes().at(name));
  adapter_rig device(image, on_gpu(), 1), host(image, gpu::make_host_backend(), 1);
  const double bound = device.model().spec.integer_activations ? 6e-2 : 3e-3;
  for (adapter_rig* rig : {&device, &host}) rig->put_four();
  const auto prompt = device.prompt(1);
  const logits_list bare = host.alone(prompt, {});
  for (const std::vector<engine::active_adapter>& adapters :
       {std::vector<engine::active_adapter>{{0, 1.0F}}, {{3, 1.0F}}, {{1, 0.5F}, {0, 0.5F}}}) {
    const logits_list want = host.alone(prompt, adapters), got = device.alone(prompt, adapters);
    BOOST_TEST(distance(bare.front(), want.front()) > 3 * bound);
    BOOST_TEST(distance(got.front(), want.front()) < bound,
               name << ": " << distance(got.front(), want.front()));
  }
}

BOOST_DATA_TEST_CASE(neighbours_with_other_adapters_change_no_bit, data::make(all_shape_names), name) {
  const bytes image = make_tiny_model(generated_shapes().at(name));
  adapter_rig rig(image, on_gpu()), plain(image, on_gpu(), 5, {}), one_slot(image, on_gpu(), 1);
  rig.put_four();
  one_slot.put_four();
  std::vector<run_of_one> runs = rig.five_runs();
  const std::vector<run_of_one> before = runs;
  rig.run(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    BOOST_TEST(same(runs[i].logits, rig.alone(before[i].pending, before[i].adapters, 1)), name << ' ' << i);
    BOOST_TEST(same(runs[i].logits, one_slot.alone(before[i].pending, before[i].adapters)), name << ' ' << i);
    for (std::size_t j = 0; j < i; ++j) BOOST_TEST(!same(runs[i].logits, runs[j].logits));
  }
  // Without adapters: the decode program and graphs, before and after steps that had some.
  BOOST_TEST(same(runs[2].logits, plain.alone(before[2].pending, {})), name);
  BOOST_TEST(same(runs[2].logits, one_slot.alone(before[2].pending, {})), name);
}

BOOST_AUTO_TEST_CASE(adapters_come_and_go_beside_a_running_sequence) {
  const bytes image = make_tiny_model(generated_shapes().at("phi3"));
  adapter_rig rig(image, on_gpu());
  BOOST_TEST(rig.plan.adapters_bytes > 0U);
  BOOST_TEST(rig.device().audit().empty());
  rig.put_four();
  const logits_list first = rig.alone(rig.prompt(1), {{0, 1.0F}});
  std::vector<run_of_one> runs{{rig.prompt(1), {{0, 1.0F}}, 4}};
  rig.begin(0, runs[0]);
  BOOST_REQUIRE(rig.step(runs));
  rig.device().drop_adapter(1);
  BOOST_REQUIRE(rig.step(runs));
  rig.put(1, {.rank = 3, .seed = 77});
  while (rig.step(runs)) {
  }
  rig.device().release(engine::slot_id{0});
  BOOST_TEST(same(runs[0].logits, first));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
