// Chains of samplers that choose as sample() does, and those that do not.
#include "engine/sampling/sampler_order.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

using namespace orcd::engine;

namespace {

using enum sampler;
using chain = std::vector<sampler>;

/// llama-server's own order, of the samplers that there are.
const chain usual{penalties, top_k, top_p, min_p, temperature};
const chain own{penalties, temperature, top_k, top_p, min_p};

sampling_params all_on() {
  sampling_params out;
  out.temperature = 0.5F;
  out.top_k = 40;
  out.top_p = 0.9F;
  out.min_p = 0.1F;
  out.repetition_penalty = 1.1F;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sampler_orders)

BOOST_AUTO_TEST_CASE(what_is_off_may_be_anywhere_or_nowhere) {
  BOOST_TEST(!differs(usual, {}).has_value());
  BOOST_TEST(!differs({}, {}).has_value());
  sampling_params cut;
  cut.top_p = 0.9F;
  cut.min_p = 0.1F;
  BOOST_TEST(!differs(usual, cut).has_value());
  BOOST_TEST(!differs(own, all_on()).has_value());
}

BOOST_AUTO_TEST_CASE(what_acts_must_be_there) {
  sampling_params params;
  params.top_k = 40;
  const auto missing = differs(chain{top_p, temperature}, params);
  BOOST_TEST_REQUIRE(missing.has_value());
  BOOST_TEST((missing->which == top_k && missing->absent));
  params = {};
  params.temperature = 0.5F;
  BOOST_TEST((differs(chain{top_k}, params)->which == temperature));
  BOOST_TEST((differs(chain{}, params)->which == temperature));
}

BOOST_AUTO_TEST_CASE(an_order_counts_where_it_changes_what_is_left) {
  const auto warm = differs(usual, all_on());
  BOOST_TEST_REQUIRE(warm.has_value());
  BOOST_TEST((warm->which == temperature && !warm->absent && warm->behind == top_p));
  auto params = all_on();
  params.top_p = 1.0F;
  BOOST_TEST((differs(usual, params)->behind == min_p));
  params.min_p = 0.0F;
  BOOST_TEST(!differs(usual, params).has_value());  // a rank does not depend on the temperature
  params = all_on();
  params.temperature = 1.0F;
  BOOST_TEST(!differs(usual, params).has_value());
  BOOST_TEST((differs(chain{penalties, top_p, top_k, min_p}, params)->which == top_k));
  params.top_p = 1.0F;
  BOOST_TEST(!differs(chain{penalties, min_p, top_k}, params).has_value());
  BOOST_TEST((differs(chain{top_k, penalties, min_p}, params)->which == penalties));
}

BOOST_AUTO_TEST_CASE(a_temperature_of_0_leaves_the_most_likely_token_whatever_is_cut) {
  auto params = all_on();
  params.temperature = 0.0F;
  BOOST_TEST(!differs(usual, params).has_value());
  BOOST_TEST(!differs(chain{penalties, temperature}, params).has_value());
  BOOST_TEST((differs(chain{penalties, top_k}, params)->which == temperature));
  BOOST_TEST((differs(chain{top_k, penalties, temperature}, params)->which == penalties));
  BOOST_TEST((differs(chain{temperature, penalties}, params)->which == penalties));
}

// Samplers that llama-server alone has are applied in its order.
BOOST_AUTO_TEST_CASE(llama_servers_order_where_its_samplers_act) {
  const chain all{penalties, dry, top_n_sigma, top_k, typical, top_p, min_p, xtc, temperature};
  for (const auto member : {&sampling_params::dry_multiplier, &sampling_params::top_n_sigma,
                            &sampling_params::xtc_probability, &sampling_params::dynatemp_range}) {
    auto params = all_on();
    params.*member = 0.5F;
    BOOST_TEST(!differs(all, params).has_value());
    const auto warm =
        differs(chain{penalties, dry, top_n_sigma, typical, temperature, top_k, top_p, min_p, xtc}, params);
    BOOST_TEST_REQUIRE(warm.has_value());
    BOOST_TEST((warm->behind == temperature));
  }
  auto params = all_on();
  params.typical_p = 0.5F;
  BOOST_TEST(!differs(all, params).has_value());
  BOOST_TEST((differs(usual, params)->which == typical && differs(usual, params)->absent));
  params.temperature = 0.0F;  // it may leave out the most likely token, so that an order counts
  BOOST_TEST(
      (differs(chain{penalties, temperature, top_k, typical, top_p, min_p}, params)->behind == temperature));
  params = all_on();
  params.temperature_last = true;
  BOOST_TEST(!differs(usual, params).has_value());
  BOOST_TEST((differs(own, params)->behind == temperature));
  BOOST_TEST(order_of(params).size() == 9U);
  BOOST_TEST(order_of({}).size() == 5U);
}

BOOST_AUTO_TEST_SUITE_END()
