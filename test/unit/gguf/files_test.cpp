#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "test/support/temporary_directory.hpp"
#include "test/unit/gguf/expect.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::ggml_type;
using engine::gguf_file;

namespace {

std::string refusal(const std::string& location) {
  const auto file = gguf_file::open(location);
  BOOST_REQUIRE_MESSAGE(!file, location << " was accepted");
  BOOST_TEST((file.error().code == engine::errc::model_load_failed));
  BOOST_TEST(file.error().message.find(location) != std::string::npos);
  return file.error().message;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

struct split_options {
  std::uint16_t number = 0;
  std::uint16_t count = 3;
  std::int32_t total = 3;
};

gguf_writer part_writer(const split_options& o, const std::string& tensor, std::uint32_t alignment) {
  gguf_writer w;
  if (o.number == 0) w.add("general.architecture", "llama").add("only.first", std::uint32_t{7});
  w.add("split.no", o.number).add("split.count", o.count).add("split.tensors.count", o.total);
  w.alignment = alignment;
  w.add_tensor(tensor, {4}, ggml_type::f32, bytes(16, static_cast<std::byte>(o.number + 1)));
  return w;
}

struct split_fixture {
  temporary_directory directory;
  std::string part(unsigned n) const {
    return directory.file("m-0000" + std::to_string(n) + "-of-00003.gguf");
  }
  void write(const split_options& o, const std::string& tensor, std::uint32_t alignment = 32) const {
    write_file(part(o.number + 1U), part_writer(o, tensor, alignment).build());
  }
  void write_all() const {
    write({0}, "a");
    write({1}, "b", 64);  // each part has its own alignment
    write({2}, "c");
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(files)

BOOST_AUTO_TEST_CASE(the_same_file_has_one_identity_by_every_name_until_it_is_written_to) {
  const temporary_directory directory;
  const std::string path = directory.file("model.gguf"), other = directory.file("other.gguf");
  const bytes image = small_writer().build();
  write_file(path, image);
  write_file(other, image);
  std::filesystem::create_hard_link(path, directory.file("link.gguf"));
  const auto before = gguf_file::open(path)->identity();
  BOOST_TEST(!before.empty());
  BOOST_TEST(gguf_file::open(directory.file("link.gguf"))->identity() == before);
  BOOST_TEST(gguf_file::open(other)->identity() != before);
  std::filesystem::last_write_time(path,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  BOOST_TEST(gguf_file::open(path)->identity() != before);
  BOOST_TEST(gguf_file::parse(image, "memory")->identity() == "");
}

BOOST_AUTO_TEST_CASE(opens_a_path_and_a_uri) {
  const temporary_directory directory;
  const std::string path = directory.file("a model.gguf");
  const bytes image = small_writer().build();
  write_file(path, image);
  std::string uri = "file://" + path;
  uri.replace(uri.find(' '), 1, "%20");
  for (const std::string& location : {path, uri}) {
    const auto file = gguf_file::open(location);
    BOOST_REQUIRE_MESSAGE(file.has_value(), location);
    BOOST_TEST(file->location() == location);
    BOOST_TEST(file->file_bytes() == image.size());
    BOOST_TEST(*file->get_unsigned("answer", 0) == 42U);
    BOOST_TEST((file->find_tensor("b")->data[67] == std::byte{2}));
    BOOST_TEST(file->check_intact().has_value());
  }
}

BOOST_AUTO_TEST_CASE(opens_shared_memory) {
  const std::string name = "/orcd-test-" + std::to_string(getpid());
  const bytes image = small_writer().build();
  const int descriptor = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  BOOST_REQUIRE(descriptor >= 0);
  BOOST_REQUIRE(::write(descriptor, image.data(), image.size()) == static_cast<ssize_t>(image.size()));
  close(descriptor);
  const auto file = gguf_file::open("shm:" + name);
  shm_unlink(name.c_str());  // the mapping keeps the object
  BOOST_REQUIRE(file.has_value());
  BOOST_TEST(*file->get_unsigned("answer", 0) == 42U);
  BOOST_TEST(has(refusal("shm:" + name), "No such file"));
}

BOOST_AUTO_TEST_CASE(refuses_what_is_no_regular_file) {
  const temporary_directory directory;
  BOOST_TEST(has(refusal(directory.file("absent.gguf")), "cannot be opened: No such file"));
  BOOST_TEST(
      has(refusal(directory.path().string()), "is a folder with 0 models (.gguf) and no qmodel.tensors"));
  BOOST_TEST(has(refusal("/dev/zero"), "is a device"));
  const std::string pipe = directory.file("pipe");
  BOOST_REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  BOOST_TEST(has(refusal(pipe), "is a pipe"));
  write_file(directory.file("empty"), {});
  BOOST_TEST(has(refusal(directory.file("empty")), "empty (0 bytes)"));
}

// Reading a mapping past the file's new end is SIGBUS, which kills a process that is not prepared.
BOOST_AUTO_TEST_CASE(survives_a_file_truncated_while_mapped) {
  const temporary_directory directory;
  const std::string path = directory.file("m.gguf");
  gguf_writer w;
  w.add("names", std::vector<std::string>{"one", "two"});
  w.add_tensor("big", {65'536}, ggml_type::f32, bytes(262'144, std::byte{0x3C}));
  write_file(path, w.build());
  const gguf_file file = gguf_file::open(path).value();
  const engine::tensor_view* big = file.find_tensor("big");
  BOOST_TEST((big->data[262'143] == std::byte{0x3C}));
  BOOST_TEST(file.check_intact().has_value());
  std::filesystem::resize_file(path, 8192);
  const volatile std::byte* last = big->data + 262'143;
  BOOST_TEST((*last == std::byte{0}));
  BOOST_TEST((big->data[100] == std::byte{0x3C}));
  const auto intact = file.check_intact();
  BOOST_REQUIRE(!intact);
  BOOST_TEST(has(intact.error().message, "truncated"));
  std::filesystem::resize_file(path, 0);
  BOOST_TEST(file.get_strings("names").value().empty());  // its key reads as zeros now, and nothing crashes
}

BOOST_AUTO_TEST_CASE(notices_a_file_that_was_replaced_in_place) {
  const temporary_directory directory;
  const std::string path = directory.file("m.gguf");
  const bytes image = small_writer().build();
  write_file(path, image);
  const gguf_file file = gguf_file::open(path).value();
  std::filesystem::last_write_time(path,
                                   std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  BOOST_TEST(!file.check_intact().has_value());
}

BOOST_AUTO_TEST_CASE(notices_a_write_whose_time_was_set_back_and_no_move) {
  const temporary_directory directory;
  const std::string path = directory.file("m.gguf");
  const bytes image = small_writer().build();
  write_file(path, image);
  const gguf_file file = gguf_file::open(path).value();
  std::filesystem::rename(path, directory.file("elsewhere"));
  write_file(path, image);
  BOOST_TEST(file.check_intact().has_value());
  std::filesystem::rename(directory.file("elsewhere"), path);
  BOOST_TEST(file.check_intact().has_value());
  std::filesystem::permissions(path,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  BOOST_TEST(file.check_intact().has_value());
  const auto time = std::filesystem::last_write_time(path);
  write_file(path, image);
  std::filesystem::last_write_time(path, time);
  BOOST_TEST(!file.check_intact().has_value());
}

BOOST_FIXTURE_TEST_CASE(opens_a_split_model_by_its_first_part, split_fixture) {
  write_all();
  const auto file = gguf_file::open(part(1));
  BOOST_REQUIRE(file.has_value());
  BOOST_TEST(file->parts().size() == 3U);
  BOOST_TEST(file->tensors().size() == 3U);
  BOOST_TEST(*file->get_unsigned("only.first", 0) == 7U);
  BOOST_TEST((file->find_tensor("a")->data[0] == std::byte{1}));
  BOOST_TEST((file->find_tensor("b")->data[0] == std::byte{2}));
  BOOST_TEST((file->find_tensor("c")->data[15] == std::byte{3}));
  BOOST_TEST(file->find_tensor("c")->part == 2U);
  BOOST_TEST(file->find_tensor("b")->file_offset % 64 == 0U);
  BOOST_TEST(file->tensor_bytes() == 48U);
  BOOST_TEST(file->file_bytes() ==
             file->parts()[0].size() + file->parts()[1].size() + file->parts()[2].size());
}

BOOST_FIXTURE_TEST_CASE(refuses_split_models_that_do_not_fit_together, split_fixture) {
  write_all();
  BOOST_TEST(has(refusal(part(2)), "is part 2 of a split model"));
  BOOST_TEST(has(refusal(part(2)), "00001-of-00003"));

  write({0, 3, 4}, "a");
  BOOST_TEST(has(refusal(part(1)), "split.tensors.count is 4, but the parts have 3"));
  write({0, 2}, "a");
  BOOST_TEST(has(refusal(part(1)), "split.count is 2, but the name says 3"));
  write({0, 60'000}, "a");
  BOOST_TEST(has(refusal(part(1)), "60000; the limit is 512"));
  write({0}, "b");
  BOOST_TEST(!gguf_file::open(part(1)).has_value());
  write({0}, "a");

  write_file(part(2), part_writer({2}, "b", 32).build());
  BOOST_TEST(has(gguf_file::open(part(1)).error().message, "split.no and split.count are 2 and 3"));
  std::filesystem::remove(part(2));
  BOOST_TEST(has(gguf_file::open(part(1)).error().message, "00002-of-00003.gguf: cannot be opened"));
}

BOOST_FIXTURE_TEST_CASE(refuses_a_split_model_under_another_name, split_fixture) {
  const std::string path = directory.file("model.gguf");
  const bytes image = part_writer({0}, "a", 32).build();
  write_file(path, image);
  BOOST_TEST(has(refusal(path), "split.count is 3"));
  BOOST_TEST(has(refusal(path), "-00001-of-00003.gguf"));
  expect_refused(image, {"split.count is 3"});
}

BOOST_AUTO_TEST_SUITE_END()
