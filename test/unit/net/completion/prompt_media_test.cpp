// When the decoding of a request's media ends before all are decoded.
#include "net/completion/prompt_media.hpp"

#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>
#include <string>

#include "net/completion/chat_messages.hpp"
#include "net/completion/prepare_completion.hpp"
#include "net/completion/sent_media.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

/// A PNG of 4 by 2 pixels, as far as its header.
constexpr std::string_view small_png =
    "iVBORw0KGgoAAAANSUhEUgAAAAQAAAACCAIAAADwyuo0AAAAI0lEQVR4nGPQyNuiW7zTqGKfee1hBuPK/RZ1R2yb"
    "Tzp1nAMAjIYLiVki2ncAAAAASUVORK5CYII=";
constexpr std::uint32_t pictures_sent = 5;

/// Every text is one token, the row of a medium too.
class one_token final : public test::letter_tokenizer {
 public:
  std::vector<engine::token_id> encode(std::string_view, const engine::encode_options&) const override {
    return {1};
  }
};

class counting_decoder final : public engine::media_decoder {
 public:
  engine::result<engine::picture> decode(std::span<const std::byte>, std::uint64_t) override {
    ++decoded;
    if (decoded == gone_at) *unwanted = true;
    engine::picture out{4, 2, {}};
    out.rgb.resize(24);
    return out;
  }
  engine::result<engine::sound> decode_sound(std::span<const std::byte>, std::uint32_t) override {
    return engine::error(engine::errc::not_ready, "");
  }
  engine::decoder_counts counts() const noexcept override { return {}; }

  std::uint32_t decoded = 0;
  std::uint32_t gone_at = 0;
  std::shared_ptr<std::atomic<bool>> unwanted = std::make_shared<std::atomic<bool>>(false);
};

struct seeing {
  seeing()
      : tower(
            engine::load_tower(engine::gguf_file::open(ORCD_TEST_DATA "/media/gemma3.gguf").value(), nullptr)
                .value()),
        input(engine::media_input::make(tower, vocabulary, decoder, {}).value()) {
    std::string content;
    for (std::uint32_t i = 0; i < pictures_sent; ++i) {
      content += (i == 0 ? "" : ",") +
                 std::string(R"({"type":"image_url","image_url":"data:image/png;base64,)") +
                 std::string(small_png) + "\"}";
    }
    asked.media = std::make_shared<sent_media>(engine::media_bounds());
    const auto messages = boost::json::parse(R"([{"role":"user","content":[)" + content + "]}]");
    BOOST_REQUIRE(read_messages(messages, false, nullptr, asked.media.get()).has_value());
    lengths.context_tokens = 100'000;
  }
  engine::result<std::vector<engine::seen_medium>> see() {
    completion_limits limits{lengths, served};
    limits.media = &input;
    return see_media(asked, {limits, vocabulary, nullptr, nullptr, decoder.unwanted},
                     form_of(completion_kind::chat));
  }

  one_token vocabulary;
  counting_decoder decoder;
  engine::tower tower;
  engine::media_input input;
  completion_request asked;
  request_limits lengths;
  engine::worker_identity served;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(media_of_prompts, seeing)

BOOST_AUTO_TEST_CASE(all_are_decoded_that_fit_the_context) {
  const auto seen = see();
  BOOST_REQUIRE(seen.has_value());
  BOOST_TEST(seen->size() == pictures_sent);
  lengths.context_tokens = seen->front().rows * pictures_sent;
  BOOST_TEST(see().has_value());
}

BOOST_AUTO_TEST_CASE(none_is_decoded_behind_those_that_fill_the_context) {
  lengths.context_tokens = tower.spec.view_rows_max() * 2;
  const auto seen = see();
  BOOST_REQUIRE(!seen.has_value());
  BOOST_TEST((seen.error().code == engine::errc::context_length_exceeded));
  BOOST_TEST(seen.error().param == "messages");
  BOOST_TEST(decoder.decoded == 3U);
}

BOOST_AUTO_TEST_CASE(none_is_decoded_once_nobody_waits_for_the_prompt) {
  decoder.gone_at = 2;
  const auto seen = see();
  BOOST_REQUIRE(!seen.has_value());
  BOOST_TEST((seen.error().code == engine::errc::cancelled));
  BOOST_TEST(decoder.decoded == 2U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::net
