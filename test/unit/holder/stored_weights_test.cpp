// Weights that a service manager kept: what is taken up again, and that nothing but a whole set is.
#include "app/holder/stored_weights.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "app/holder/stored_state.hpp"
#include "net/failover/weights_link.hpp"
#include "test/unit/holder/held_weights.hpp"

namespace orcd::app {
namespace {

using net::file_descriptor;
using passed_list = std::vector<stored_descriptor>;
using names = std::vector<std::string>;

weights_table::committed two_pieces(std::uint64_t epoch) {
  weights_table::committed out;
  out.epoch = epoch;
  out.told = {test::hash_of(1), test::hash_of(2), "about them"};
  out.pieces.push_back({"weights", 4'096, test::memory_with("first")});
  out.pieces.push_back({"pages", 100, test::memory_with("second")});
  return out;
}

/// As they come from a service manager, which knows no order.
void pass(passed_list& to, const std::string& device, weights_table::committed what) {
  to.push_back({record_name(device, what.epoch), make_record(what).value()});
  for (std::size_t i = what.pieces.size(); i-- > 0;) {
    to.push_back({piece_name(device, what.epoch, i), std::move(what.pieces[i].memory)});
  }
}

BOOST_AUTO_TEST_SUITE(stored_weights)

BOOST_AUTO_TEST_CASE(what_was_committed_comes_back) {
  passed_list passed;
  passed.push_back({"journal", test::memory_with("another's")});
  pass(passed, "host", two_pieces(3));
  pass(passed, "GPU-1-2", two_pieces(18'446'744'073'709'551'615U));
  auto taken = take_weights(passed);
  BOOST_TEST(taken.refused.empty());
  BOOST_TEST_REQUIRE(passed.size() == 1U);  // is not of the weights
  BOOST_TEST(passed[0].name == "journal");
  BOOST_TEST_REQUIRE(taken.by_device.size() == 2U);
  BOOST_TEST(taken.by_device["GPU-1-2"].what.epoch == 18'446'744'073'709'551'615U);
  weights_table table;
  table.restore(std::move(taken.by_device["host"].what));
  // As those who had it before find it.
  const auto told = table.claim(1, {5, net::weights_mode::read, 0, 3}, {});
  BOOST_TEST_REQUIRE(told.has_value());
  BOOST_TEST_REQUIRE(told->size() == 1U);
  BOOST_TEST(told->front().granted);
  const auto grant = table.grant(net::weights_mode::read);
  BOOST_TEST(grant.epoch == 3U);
  BOOST_TEST((grant.layout == test::hash_of(1) && grant.content == test::hash_of(2)));
  BOOST_TEST(grant.metadata == "about them");
  const auto piece = table.get(1, "pages");
  BOOST_TEST_REQUIRE(piece.has_value());
  BOOST_TEST_REQUIRE(*piece != nullptr);
  BOOST_TEST((*piece)->bytes == 100U);
  BOOST_TEST(test::text_in((*piece)->memory.get()) == "second");
  // The next writer's number is higher, and what it replaces is gone.
  BOOST_TEST(table.leave(1).empty());
  BOOST_TEST_REQUIRE(table.claim(2, {0, net::weights_mode::write, 0, 0}, {}).has_value());
  BOOST_TEST(table.state().epoch == 4U);
  BOOST_TEST(table.what_is_there() == nullptr);
}

BOOST_AUTO_TEST_CASE(what_is_committed_is_kept_if_it_fits) {
  test::held_weights device;
  net::weights_link writer(device.path(), 0);
  BOOST_TEST_REQUIRE(writer.request(net::weights_mode::write, test::patience).has_value());
  BOOST_TEST_REQUIRE(writer.put("weights", 4'096, test::memory_with("first").get()).has_value());
  BOOST_TEST_REQUIRE(writer.put("pages", 4'096, test::memory_with("second").get()).has_value());
  BOOST_TEST(device.stored(3).empty());  // not committed
  BOOST_TEST_REQUIRE(writer.commit({test::hash_of(1), test::hash_of(2), "about them"}).has_value());
  BOOST_TEST(device.stored(2).empty());
  const auto items = device.stored(3);
  BOOST_TEST_REQUIRE(items.size() == 3U);
  passed_list passed;
  for (const auto& one : items) {
    BOOST_TEST(!one.is_watched);
    passed.push_back({one.name, file_descriptor(::dup(one.descriptor))});
  }
  BOOST_TEST(device.stored(3).back().descriptor == items.back().descriptor);  // made once
  const auto taken = take_weights(passed);
  BOOST_TEST_REQUIRE(taken.by_device.count("host") == 1U);
  const auto& back = taken.by_device.find("host")->second.what;
  BOOST_TEST(back.epoch == 1U);
  BOOST_TEST_REQUIRE(back.pieces.size() == 2U);
  BOOST_TEST(test::text_in(back.pieces[1].memory.get()) == "second");
  writer.release();
  BOOST_TEST_REQUIRE(writer.request(net::weights_mode::write, test::patience).has_value());
  BOOST_TEST(device.stored(3).empty());  // let go
}

BOOST_AUTO_TEST_CASE(the_later_of_two_sets_counts) {
  passed_list passed;
  pass(passed, "host", two_pieces(9));
  pass(passed, "host", two_pieces(10));
  const auto taken = take_weights(passed);
  BOOST_TEST_REQUIRE(taken.by_device.size() == 1U);
  BOOST_TEST(taken.by_device.begin()->second.what.epoch == 10U);
  const names left{"weights-9-host", "memory-9-0-host", "memory-9-1-host"};
  BOOST_TEST(taken.refused == left, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_set_with_a_hole_is_refused) {
  for (const char* const missing : {"weights-3-host", "memory-3-0-host", "memory-3-1-host"}) {
    passed_list passed;
    pass(passed, "host", two_pieces(3));
    std::erase_if(passed, [&](const stored_descriptor& one) { return one.name == missing; });
    const auto taken = take_weights(passed);
    BOOST_TEST(taken.by_device.empty(), missing);
    BOOST_TEST(taken.refused.size() == 2U, missing);
    BOOST_TEST(passed.empty());
    // Its names are not used again.
    BOOST_TEST_REQUIRE(taken.epochs.count("host") == 1U);
    weights_table table;
    table.begin_behind(taken.epochs.find("host")->second);
    BOOST_TEST_REQUIRE(table.claim(1, {0, net::weights_mode::write_or_read, 0, 0}, {}).has_value());
    BOOST_TEST(table.state().epoch == 4U);
  }
}

BOOST_AUTO_TEST_CASE(memory_that_is_none_is_refused) {
  const auto is_refused = [](const char* name, file_descriptor other) {
    passed_list passed;
    pass(passed, "host", two_pieces(3));
    for (auto& one : passed) {
      if (one.name == name) one.descriptor = std::move(other);
    }
    const auto taken = take_weights(passed);
    return taken.by_device.empty() && taken.refused.size() == 3;
  };
  int ends[2]{};
  BOOST_TEST_REQUIRE(::pipe(ends) == 0);
  const file_descriptor writes(ends[1]);
  BOOST_TEST(is_refused("memory-3-0-host", file_descriptor(ends[0])));
  auto shorter = test::memory_with("first");
  BOOST_TEST_REQUIRE(::ftruncate(shorter.get(), 4'095) == 0);
  BOOST_TEST(is_refused("memory-3-0-host", std::move(shorter)));
  // What says what they are could have been written to by anybody.
  BOOST_TEST(is_refused("weights-3-host", test::memory_with("not sealed")));
  BOOST_TEST(is_refused("weights-3-host", make_record(two_pieces(4)).value()));
}

/// Cut, longer or spoilt anywhere: refused, or at least within the bounds of what can be said.
BOOST_AUTO_TEST_CASE(a_spoilt_record_is_refused) {
  const auto whole = make_record(two_pieces(3)).value();
  std::string bytes(4'096, '\0');
  const auto count = ::pread(whole.get(), bytes.data(), bytes.size(), 0);
  BOOST_TEST_REQUIRE(count > 0);
  bytes.resize(static_cast<std::size_t>(count));
  const auto taken_with = [](const std::string& text) {
    file_descriptor record(::memfd_create("record", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    BOOST_TEST_REQUIRE(::write(record.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    BOOST_TEST_REQUIRE(
        ::fcntl(record.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0);
    passed_list passed;
    pass(passed, "host", two_pieces(3));
    passed[0].descriptor = std::move(record);
    return take_weights(passed).by_device.size();
  };
  BOOST_TEST_REQUIRE(taken_with(bytes) == 1U);
  BOOST_TEST(taken_with(bytes + '\0') == 0U);
  BOOST_TEST(taken_with("") == 0U);
  BOOST_TEST(taken_with(std::string(1U << 20U, 'x')) == 0U);
  for (std::size_t i = 1; i < bytes.size(); ++i) BOOST_TEST(taken_with(bytes.substr(0, i)) == 0U, i);
  // Magic number, epoch, lengths and counts; hashes and the text are what others compare.
  const std::size_t metadata = 16 + 64, pieces = metadata + 4 + 10;
  for (const std::size_t at : {std::size_t{0}, std::size_t{8}, metadata, pieces, pieces + 4 + 6}) {
    auto spoilt = bytes;
    spoilt[at] = static_cast<char>(spoilt[at] ^ 0x7f);
    BOOST_TEST(taken_with(spoilt) == 0U, at);
  }
}

BOOST_AUTO_TEST_CASE(names_are_exact) {
  for (const char* const bad : {"weights-", "weights-3", "weights-0-host", "weights-03-host", "weights--host",
                                "weights-18446744073709551616-host", "Weights-3-host"}) {
    passed_list passed;
    passed.push_back({bad, make_record(two_pieces(3)).value()});
    BOOST_TEST(take_weights(passed).by_device.empty(), bad);
    // It is left for whoever knows it, and nobody does.
    BOOST_TEST_REQUIRE(passed.size() == 1U);
    BOOST_TEST(sort_stored(std::move(passed), "0.0.0.0", 0).refused == names{bad});
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::app
