#include "net/failover/holder_frames.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

using namespace orcd::net;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

weights_hash some_hash(std::uint8_t first) {
  weights_hash out{};
  for (auto& byte : out) byte = first++;
  return out;
}

/// One of each type, with every field set.
std::vector<numbered_frame> one_of_each() {
  return {{1, hello_frame{63, 65'535}},
          {2, welcome_frame{true}},
          {3, take_over_frame{77}},
          {4, sockets_frame{true, true, 9, {{0, 7}, {held_sockets_max - 1, ~std::uint64_t{0}}}}},
          {5, closed_frame{{17, 1ULL << 40U}}},
          {6, yield_frame{true}},
          {7, ping_frame{~std::uint64_t{0} - 1}},
          {8, offer_frame{}},
          {9, probe_frame{}},
          {~std::uint32_t{0}, report_frame{2, 1, 3, weights_differ, 1, 4'096, true, true}},
          {11, claim_frame{63, weights_mode::write_or_read, 30'000, 1ULL << 40U}},
          {12, grant_frame{weights_mode::read, 3, some_hash(1), some_hash(2), "a model"}},
          {13, deny_frame{denial::nothing}},
          {14, put_frame{piece_bytes_max, std::string(piece_name_bytes_max, 'w')}},
          {15, commit_frame{some_hash(3), some_hash(4), std::string("any\0bytes", 9)}},
          {16, get_frame{"weights.0_a-Z"}},
          {17, piece_frame{true, 1}},
          {18, done_frame{}},
          {19, ask_frame{}},
          {20, weights_state_frame{5, 1ULL << 34U, 2, 63, 1, true, true, some_hash(5), some_hash(6)}},
          {21, waiting_frame{{{3, 8}, {held_sockets_max - 1, 9}}}},
          {22, standby_frame{{{~std::uint64_t{0}, 5}, {1, 2, 3}}}},
          {23, who_frame{{std::vector<std::uint64_t>(answer_identity::parts_max, 77), {4, 5, 6}}}},
          {24, rest_frame{}},
          {25, signal_frame{signal_frame::kind::hand_over}},
          {26, reloaded_frame{}},
          {27, list_frame{}},
          {28, engines_frame{8'080,
                             12,
                             true,
                             {{1, listed_engine::kind::leaves, false, 4'711, 9'091},
                              {63, listed_engine::kind::serves, true, 0, 0}},
                             3,
                             4'095}},
          {29, settled_frame{}},
          {30, journal_damaged_frame{}}};
}

bool is_taken(const std::string& packet, std::size_t descriptors) {
  return decode_frame(bytes_of(packet), descriptors).has_value();
}

std::string changed(std::string packet, std::size_t at, char to) {
  packet.at(at) = to;
  return packet;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(holder_frames)

BOOST_AUTO_TEST_CASE(what_is_encoded_is_decoded) {
  for (const auto& one : one_of_each()) {
    const auto packet = encode_frame(one);
    BOOST_TEST(packet.size() >= frame_header_bytes);
    const auto back = decode_frame(bytes_of(packet), descriptors_of(one.body));
    BOOST_TEST_REQUIRE(back.has_value(), one.body.index());
    BOOST_TEST((*back == one), one.body.index());
  }
}

BOOST_AUTO_TEST_CASE(a_frame_cut_anywhere_or_longer_is_refused) {
  for (const auto& one : one_of_each()) {
    const auto packet = encode_frame(one);
    for (std::size_t cut = 0; cut < packet.size(); ++cut) {
      BOOST_TEST(!is_taken(packet.substr(0, cut), descriptors_of(one.body)));
    }
    BOOST_TEST(!is_taken(packet + '\0', descriptors_of(one.body)));
  }
}

BOOST_AUTO_TEST_CASE(descriptors_that_are_missing_or_too_many_are_refused) {
  for (const auto& one : one_of_each()) {
    const auto packet = encode_frame(one);
    for (std::size_t count = 0; count <= frame_descriptors_max; ++count) {
      BOOST_TEST(is_taken(packet, count) == (count == descriptors_of(one.body)));
    }
  }
  BOOST_TEST(descriptors_of(welcome_frame{false}) == 0U);
}

BOOST_AUTO_TEST_CASE(heads_of_others_are_refused) {
  const auto packet = encode_frame({0, ping_frame{5}});
  BOOST_TEST(is_taken(packet, 0));
  BOOST_TEST(!is_taken(changed(packet, 0, 'X'), 0));   // magic
  BOOST_TEST(!is_taken(changed(packet, 4, 1), 0));     // version
  BOOST_TEST(!is_taken(changed(packet, 6, 0), 0));     // type
  BOOST_TEST(!is_taken(changed(packet, 6, 60), 0));    // type
  BOOST_TEST(!is_taken(changed(packet, 12, 9), 0));    // length
  BOOST_TEST(!is_taken(changed(packet, 15, 127), 0));  // length
  const auto why = decode_frame(bytes_of(changed(packet, 6, 99)), 0).error().message;
  BOOST_TEST(why == "frame: type 99 is none");
}

BOOST_AUTO_TEST_CASE(fields_out_of_range_are_refused) {
  BOOST_TEST(!is_taken(encode_frame({0, hello_frame{engine_ids}}), 1));
  BOOST_TEST(!is_taken(encode_frame({0, hello_frame{0, 65'536}}), 1));
  BOOST_TEST(!is_taken(encode_frame({0, closed_frame{{held_sockets_max, 1}}}), 0));
  BOOST_TEST(!is_taken(encode_frame({0, closed_frame{{0, 0}}}), 0));
  BOOST_TEST(!is_taken(encode_frame({0, sockets_frame{false, false, 0, {}}}), 0));
  BOOST_TEST(!is_taken(encode_frame({0, sockets_frame{false, false, 1, {{held_sockets_max, 1}}}}), 1));
  BOOST_TEST(!is_taken(changed(encode_frame({0, welcome_frame{}}), frame_header_bytes, 2), 0));
  BOOST_TEST(!is_taken(encode_frame({0, take_over_frame{0}}), 0));
  const auto standby = encode_frame({0, standby_frame{{{1}, {}}}});
  BOOST_TEST(
      !is_taken(changed(standby, frame_header_bytes, static_cast<char>(answer_identity::parts_max + 1)), 0));
  BOOST_TEST(!is_taken(encode_frame({0, take_over_frame{held_sockets_max + 1}}), 0));
  for (const char kind : {'\0', '\3'}) {
    BOOST_TEST(!is_taken(changed(encode_frame({0, signal_frame{}}), frame_header_bytes, kind), 0));
  }
  const auto engines = encode_frame({0, engines_frame{1, 2, true, {{}}}});
  BOOST_TEST(is_taken(engines, 0));
  BOOST_TEST(!is_taken(changed(engines, frame_header_bytes + 20, 65), 0));  // count
  BOOST_TEST(!is_taken(changed(engines, frame_header_bytes + 28, 0), 0));   // state
  BOOST_TEST(!is_taken(changed(engines, frame_header_bytes + 28, 5), 0));   // state
  BOOST_TEST(!is_taken(changed(engines, frame_header_bytes + 32, 2), 0));   // silence
  const auto waiting = encode_frame({0, waiting_frame{{{3, 1}}}});
  BOOST_TEST(!is_taken(changed(waiting, frame_header_bytes + 1, 17), 0));  // count
  const auto sockets = encode_frame({0, sockets_frame{true, false, 1, {{3, 1}}}});
  BOOST_TEST(!is_taken(changed(sockets, frame_header_bytes, 4), 1));       // flags
  BOOST_TEST(!is_taken(changed(sockets, frame_header_bytes + 4, 65), 1));  // count
  BOOST_TEST(!is_taken(changed(sockets, frame_header_bytes + 20, 1), 1));  // padding of a place
}

BOOST_AUTO_TEST_CASE(fields_about_weights_out_of_range_are_refused) {
  constexpr auto body = frame_header_bytes;
  const auto why = [](const std::string& packet, std::size_t descriptors) {
    const auto got = decode_frame(bytes_of(packet), descriptors);
    return got ? std::string() : got.error().message;
  };
  const auto claim = encode_frame({0, claim_frame{}});
  BOOST_TEST(why(changed(claim, body, 64), 1) == "frame: engine 64, the limit is 63");
  BOOST_TEST(why(changed(claim, body + 4, 0), 1) == "frame: mode 0, not 1 to 3");
  BOOST_TEST(why(changed(claim, body + 4, 4), 1) == "frame: mode 4, not 1 to 3");
  BOOST_TEST(why(changed(encode_frame({0, grant_frame{}}), body, 3), 0) ==
             "frame: granted mode 3, not 1 to 2");
  BOOST_TEST(why(changed(encode_frame({0, deny_frame{}}), body, 3), 0) == "frame: reason 3, not 1 to 2");
  const auto put = encode_frame({0, put_frame{1, "ab"}});
  BOOST_TEST(why(changed(put, body, 0), 1) == "frame: memory of 0 bytes, not 1 to 17592186044416");
  BOOST_TEST(why(changed(put, body + 7, 1), 1).find("17592186044416") != std::string::npos);
  BOOST_TEST(why(changed(put, body + 8, 65), 1) == "frame: a name of 65 bytes, the limit is 64");
  BOOST_TEST(why(changed(put, body + 8, 1), 1) == "frame: the body's length is not that of its type");
  BOOST_TEST(why(changed(put, body + 12, '/'), 1).find("letters, digits and ._-") != std::string::npos);
  BOOST_TEST(why(changed(put, body + 13, '\0'), 1).find("letters, digits and ._-") != std::string::npos);
  const auto commit = encode_frame({0, commit_frame{{}, some_hash(1), ""}});
  BOOST_TEST(why(commit, 0) == "frame: a layout hash of zeros");
  const auto large = changed(changed(commit, body, 1), body + 64 + 1, 0x40 + 1);
  BOOST_TEST(why(large, 0) == "frame: metadata of 16640 bytes, the limit is 16384");
  BOOST_TEST(why(changed(encode_frame({0, piece_frame{}}), body + 4, 1), 0).find("not there") !=
             std::string::npos);
  BOOST_TEST(why(changed(encode_frame({0, weights_state_frame{}}), body + 28, 2), 0) ==
             "frame: a flag is 2, not 0 or 1");
}

BOOST_AUTO_TEST_CASE(names_of_pieces) {
  BOOST_TEST(is_piece_name("kv.pool_0-A"));
  BOOST_TEST(is_piece_name(std::string(piece_name_bytes_max, 'a')));
  BOOST_TEST(!is_piece_name(std::string(piece_name_bytes_max + 1, 'a')));
  for (const char* const wrong : {"", " ", "a/b", "a\n", "\xc3\xa4"})
    BOOST_TEST(!is_piece_name(wrong), wrong);
}

BOOST_AUTO_TEST_CASE(as_many_places_as_descriptors_can_travel) {
  sockets_frame full;
  for (std::uint32_t i = 0; i < frame_descriptors_max; ++i) full.places.push_back({i, i + 1});
  BOOST_TEST(is_taken(encode_frame({0, full}), frame_descriptors_max));
}

BOOST_AUTO_TEST_CASE(spoilt_frames_are_refused_or_are_others) {
  std::mt19937 random(11);
  const auto all = one_of_each();
  for (int i = 0; i < 20'000; ++i) {
    auto packet = encode_frame(all[random() % all.size()]);
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      packet[random() % packet.size()] = static_cast<char>(random());
    }
    const std::size_t descriptors = random() % 4;
    const auto got = decode_frame(bytes_of(packet), descriptors);
    if (got) BOOST_TEST(encode_frame(*got) == packet);
  }
}

BOOST_AUTO_TEST_SUITE_END()
