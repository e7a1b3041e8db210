// Under which names the model is served, and how they are listed.
#include "net/models/model_names.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

#include "net/openai/models.hpp"

namespace orcd::net {
namespace {

struct names {
  names() {
    served.model_name = "org/Tiny-1B";
    served.model_aliases = {"gpt-4o", "local.gguf"};
    served.model_file = "tiny-1b-Q4_K_M";
    served.context_tokens = 7;
  }
  [[nodiscard]] std::string meant(std::string_view asked) const {
    return std::string(find_model_id(served, asked).value_or("none"));
  }
  engine::worker_identity served;
};

BOOST_FIXTURE_TEST_SUITE(model_names, names)

BOOST_AUTO_TEST_CASE(what_a_name_means) {
  const std::pair<const char*, const char*> cases[] = {{"org/Tiny-1B", "org/Tiny-1B"},
                                                       {"ORG/tiny-1b", "org/Tiny-1B"},
                                                       {"tiny-1b", "org/Tiny-1B"},
                                                       {"tiny-1b.gguf", "org/Tiny-1B"},
                                                       {"hf.co/org/tiny-1b", "org/Tiny-1B"},
                                                       {"other/tiny-1b", "none"},
                                                       {"GPT-4O", "gpt-4o"},
                                                       {"openai/gpt-4o", "gpt-4o"},
                                                       {"local", "local.gguf"},
                                                       {"LOCAL.GGUF", "local.gguf"},
                                                       {"tiny-1b-q4_k_m", "org/Tiny-1B"},
                                                       {"/models/tiny-1b-Q4_K_M.gguf", "org/Tiny-1B"},
                                                       {"gpt-4", "none"},
                                                       {"gpt-4o-mini", "none"},
                                                       {"", "none"},
                                                       {"/", "none"},
                                                       {"org/", "none"},
                                                       {".gguf", "none"},
                                                       {"*", "none"}};
  for (const auto& [asked, id] : cases) BOOST_TEST(meant(asked) == id, asked);
}

BOOST_AUTO_TEST_CASE(any_name_means_the_first_unless_it_is_another_id) {
  served.any_model_name = true;
  BOOST_TEST(meant("whatever") == "org/Tiny-1B");
  BOOST_TEST(meant("") == "org/Tiny-1B");
  BOOST_TEST(meant("gpt-4o") == "gpt-4o");
  BOOST_TEST(check_model_name(served, "whatever").has_value());
}

BOOST_AUTO_TEST_CASE(another_model_is_refused_by_name) {
  const auto refused = check_model_name(served, "gpt-4");
  BOOST_TEST_REQUIRE(refused.has_error());
  BOOST_TEST((refused.error().code == engine::errc::not_found));
  BOOST_TEST(refused.error().param == "model");
  BOOST_TEST(refused.error().message.find("'gpt-4', this worker serves 'org/Tiny-1B'") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(each_id_is_listed) {
  const auto list = answer_models(served, 5).body;
  for (const char* id : {"org/Tiny-1B", "gpt-4o", "local.gguf"}) {
    BOOST_TEST(list.find("{\"id\":\"" + std::string(id) + "\",\"object\":\"model\"") != std::string::npos,
               id);
  }
  BOOST_TEST(answer_model(served, 5, "Tiny-1B").body.find("{\"id\":\"org/Tiny-1B\"") == 0U);
  BOOST_TEST(answer_model(served, 5, "GPT-4o").body.find("{\"id\":\"gpt-4o\"") == 0U);
  BOOST_TEST(answer_model(served, 5, "n").status == 404U);
}

BOOST_AUTO_TEST_CASE(what_is_said_of_a_model) {
  served = {};
  served.model_name = "m";
  served.context_tokens = 7;
  served.vocab = 300;
  served.context_trained = 8;
  served.embedding_length = 16;
  served.parameters = 1'000;
  served.tensor_bytes = 4'000;
  BOOST_TEST(answer_models(served, 5).body ==
             R"({"object":"list","data":[{"id":"m","object":"model","created":5,"owned_by":"worker-orcd",)"
             R"("max_model_len":7,"meta":{"architecture":"","quant_kind":"","context_tokens":7,"slots":1,)"
             R"("embedding_length":16,"n_vocab":300,"n_ctx_train":8,"n_embd":16,"n_params":1000,"size":4000,)"
             R"("task":"completion","pooling":null,"digest":null}}]})");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
