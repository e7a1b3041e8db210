#include "app/holder/device_list.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "app/holder/holder_options.hpp"
#include "net/failover/weights_frames.hpp"
#include "test/support/temporary_directory.hpp"

using namespace orcd;
using app::held_device;

namespace {

constexpr const char* first_uuid = "GPU-00000000-1111-2222-3333-444444444444";
constexpr const char* second_uuid = "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";

void list_gpu(const test::temporary_directory& folder, const std::string& bus, const std::string& uuid) {
  std::filesystem::create_directory(folder.file(bus));
  std::ofstream(folder.file(bus + "/information"))
      << "Model: \t\t Some GPU\nIRQ:   \t\t 57\nGPU UUID: \t " << uuid << "\nDevice Minor: \t 0\n";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(device_lists)

BOOST_AUTO_TEST_CASE(devices_are_named_with_or_without_an_index) {
  std::vector<held_device> list;
  BOOST_TEST(!app::add_device(list, second_uuid).has_value());
  BOOST_TEST(!app::add_device(list, std::string(first_uuid) + "=5").has_value());
  BOOST_TEST(!app::add_device(list, "host").has_value());
  BOOST_TEST(!app::add_device(list, "MIG-AAAAAAAA-bbbb-cccc-dddd-eeeeeeeeeeee").has_value());
  const std::vector<held_device> want{
      {second_uuid, 0}, {first_uuid, 5}, {"host", 2}, {"MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", 3}};
  BOOST_TEST((list == want));
  for (const char* const wrong : {"", "0", "host=", "host=x", "host=256", "host=-1", "GPU-1", "gpu-0", "../x",
                                  "TPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"}) {
    std::vector<held_device> none;
    BOOST_TEST(app::add_device(none, wrong).has_value(), wrong);
    BOOST_TEST(none.empty());
  }
  BOOST_TEST(app::add_device(list, "host=9").has_value());                                      // twice
  BOOST_TEST(app::add_device(list, "GPU-99999999-1111-2222-3333-444444444444=5").has_value());  // its index
  BOOST_TEST(list.size() == 4U);
}

BOOST_AUTO_TEST_CASE(there_are_sixteen_at_most) {
  std::vector<held_device> list;
  std::string uuid = first_uuid;
  for (std::size_t i = 0; i < app::devices_max; ++i) {
    uuid.back() = "0123456789abcdef"[i];
    BOOST_TEST(!app::add_device(list, uuid).has_value());
  }
  BOOST_TEST(app::add_device(list, "host").has_value());
}

BOOST_AUTO_TEST_CASE(the_driver_lists_gpus_by_their_bus_addresses) {
  const test::temporary_directory folder;
  BOOST_TEST((app::find_devices(folder.file("none")) == std::vector<held_device>{{net::host_device, 0}}));
  list_gpu(folder, "0000:9b:00.0", second_uuid);
  list_gpu(folder, "0000:0a:00.0", first_uuid);
  list_gpu(folder, "0000:3b:00.0", "GPU-" + std::string(8, '?') + "-not-known-yet");
  std::filesystem::create_directory(folder.file("0000:ff:00.0"));  // says nothing
  const std::vector<held_device> want{{first_uuid, 0}, {second_uuid, 2}};
  BOOST_TEST((app::find_devices(folder.path().string()) == want));
}

BOOST_AUTO_TEST_CASE(an_option_names_devices) {
  const auto opts =
      app::parse_holder_options({"--failover-dir=/d", "--device", "host=3", "--device", first_uuid});
  BOOST_TEST_REQUIRE(opts.has_value());
  BOOST_TEST((opts->devices == std::vector<held_device>{{"host", 3}, {first_uuid, 1}}));
  BOOST_TEST(!app::parse_holder_options({"--failover-dir=/d", "--device", "0"}).has_value());
  BOOST_TEST(net::weights_socket_path("/d", "host") == "/d/gms_host.sock");
}

BOOST_AUTO_TEST_SUITE_END()
