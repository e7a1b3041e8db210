// Pictures and sounds as requests send them.
#include "net/completion/sent_media.hpp"

#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>
#include <string>

#include "net/completion/chat_messages.hpp"

namespace {

using namespace orcd;

/// A PNG of 4 by 2 pixels, as far as its header.
constexpr std::string_view png =
    "iVBORw0KGgoAAAANSUhEUgAAAAQAAAACCAIAAADwyuo0AAAAI0lEQVR4nGPQyNuiW7zTqGKfee1hBuPK/RZ1R2yb"
    "Tzp1nAMAjIYLiVki2ncAAAAASUVORK5CYII=";

/// Two samples, at 16 kHz.
constexpr std::string_view wav = "UklGRigAAABXQVZFZm10IBAAAAABAAEAgD4AAAB9AAACABAAZGF0YQQAAAABAAIA";

std::string sound(std::string_view data, const std::string& format = "wav") {
  return R"({"type":"input_audio","input_audio":{"data":")" + std::string(data) + R"(","format":")" + format +
         R"("}})";
}

std::string url(std::string_view type, std::string_view data) {
  return "data:" + std::string(type) + ";base64," + std::string(data);
}

engine::result<boost::json::array> read(net::sent_media& pictures, const std::string& content,
                                        const std::string& role = "user") {
  const auto messages = boost::json::parse(R"([{"role":")" + role + R"(","content":)" + content + "}]");
  return net::read_messages(messages, false, nullptr, &pictures);
}

std::string part(const std::string& address, const std::string& more = {}) {
  return R"({"type":"image_url","image_url":{"url":")" + address + "\"" + more + "}}";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sent_media)

BOOST_AUTO_TEST_CASE(a_picture_is_a_mark_in_its_message) {
  net::sent_media pictures({});
  const std::string one = part(url("image/png", png)),
                    low = part(url("image/PNG", png), R"(,"detail":"low")");
  const auto read_all = read(pictures, R"([{"type":"text","text":"a"},)" + one +
                                           R"(,{"type":"text","text":"b"},)"
                                           R"({"type":"text","text":"c"},)" +
                                           low + "]");
  BOOST_REQUIRE_MESSAGE(read_all.has_value(), (read_all ? "" : read_all.error().message));
  const auto& marks = pictures.marks();
  BOOST_TEST(std::string((*read_all)[0].at("content").as_string()) ==
             "a" + marks.mark(0) + "b" + marks.between() + "c" + marks.mark(1));
  BOOST_REQUIRE_EQUAL(pictures.all().size(), 2U);
  BOOST_TEST((pictures.all()[0].detail == engine::picture_detail::automatic));
  BOOST_TEST((pictures.all()[1].detail == engine::picture_detail::low));
  BOOST_TEST(pictures.all()[1].path == "messages[0].content[4].image_url.url");
}

BOOST_AUTO_TEST_CASE(a_sound_is_a_mark_in_its_message) {
  net::sent_media sounds({}, true);
  const auto read_all = read(sounds, R"([{"type":"text","text":"a"},)" + sound(wav) + "," + sound(wav) + "]");
  BOOST_REQUIRE_MESSAGE(read_all.has_value(), (read_all ? "" : read_all.error().message));
  BOOST_TEST(std::string((*read_all)[0].at("content").as_string()) ==
             "a" + sounds.marks().mark(0) + sounds.marks().mark(1));
  BOOST_REQUIRE_EQUAL(sounds.all().size(), 2U);
  BOOST_TEST(sounds.all()[1].path == "messages[0].content[2].input_audio.data");
  BOOST_TEST(sounds.all()[0].file.size() == 48U);
}

BOOST_AUTO_TEST_CASE(bad_sounds_are_refused_by_name) {
  const auto why = [](const std::string& content, const std::string& param,
                      engine::media_bounds bounds = {}) {
    net::sent_media sounds(bounds, true);
    const auto read_all = read(sounds, "[" + content + "]");
    if (read_all) return std::string("taken");
    BOOST_TEST(read_all.error().param == "messages[0].content[0]" + param);
    return read_all.error().message;
  };
  const auto says = [](const std::string& message, const std::string& part) {
    if (message.find(part) != std::string::npos) return true;
    BOOST_TEST_MESSAGE(message);
    return false;
  };
  BOOST_TEST(says(why(sound(wav, "ogg"), ".input_audio.format"), "'wav' or 'mp3'"));
  BOOST_TEST(says(why(sound(wav, "mp3"), ".input_audio.format"), "is 'mp3', but the data are a WAV file"));
  BOOST_TEST(says(why(sound("AAAA"), ".input_audio.data"), "WAV and MP3 are"));
  BOOST_TEST(says(why(sound(""), ".input_audio.data"), "no bytes"));
  BOOST_TEST(says(why(sound("AA AA"), ".input_audio.data"), "no base64"));
  BOOST_TEST(says(why(sound(wav), ".input_audio.data", {.sound_bytes_max = 40}), "the limit is 40"));
  BOOST_TEST(says(why(R"({"type":"input_audio"})", ".input_audio"), "missing"));
  BOOST_TEST(says(
      why(R"({"type":"input_audio","input_audio":{"format":"wav","data":"","url":"x"}})", ".input_audio.url"),
      ""));
  BOOST_TEST(says(why(part(url("image/png", png)), ".image_url.url"),
                  "is a picture, which this worker's projector does not take"));
  net::sent_media pictures({});
  const auto heard = read(pictures, "[" + sound(wav) + "]");
  BOOST_REQUIRE(!heard.has_value());
  BOOST_TEST(heard.error().param == "messages[0].content[0]");
  BOOST_TEST(says(heard.error().message, "is a sound, which this worker's projector does not take"));
  net::sent_media one({.media_max = 1}, true);
  const auto two = read(one, "[" + sound(wav) + "," + sound(wav) + "]");
  BOOST_REQUIRE(!two.has_value());
  BOOST_TEST(says(two.error().message, "one sound more than a request may have: 1"));
}

BOOST_AUTO_TEST_CASE(texts_without_pictures_are_joined_as_ever) {
  net::sent_media pictures({});
  const auto text = read(pictures, R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])");
  BOOST_TEST((*text)[0].at("content") == boost::json::value("a\nb"));
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_named) {
  const auto why = [](const std::string& content, const std::string& role = "user") {
    net::sent_media pictures({.media_max = 1, .bytes_max = 100});
    const auto read_all = read(pictures, "[" + content + "]", role);
    return read_all ? std::string("taken") : read_all.error().message;
  };
  const auto says = [](const std::string& text, const std::string& words) {
    BOOST_TEST(text.find(words) != std::string::npos, text);
  };
  const std::string good = part(url("image/png", png));
  BOOST_TEST(why(good) == "taken");
  says(why(good + "," + good), "one picture more than a request may have: 1");
  says(why(good, "system"), "must be 'text'");
  says(why(good, "assistant"), "must be 'text'");
  says(why(part(url("image/webp", png))), "but is a PNG file");
  says(why(part(url("image/png", png), R"(,"detail":"best")")), "'low', 'high' or 'auto'");
  says(why(part(url("image/png", png), R"(,"more":1)")), "more");
  says(why(part(url("image/png", std::string(400, 'A')))), "the limit is 100 bytes");
  says(why(part("https://example.com/a.png")), "fetches no others");
}

BOOST_AUTO_TEST_SUITE_END()
