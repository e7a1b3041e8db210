#include "bench/synth/stamped_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <tuple>

#include "engine/base/ensure.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::bench {
namespace {

constexpr std::uint64_t alignment = 32;  // GGUF's default
constexpr std::uint64_t pool_bytes = 4ULL << 20U;
constexpr std::uint64_t piece_bytes = 4ULL << 20U;
constexpr unsigned threads_max = 16;

std::uint64_t aligned(std::uint64_t at) {
  return (at + alignment - 1) / alignment * alignment;
}

engine::error failure(const std::string& what, const std::string& path, int code) {
  return {engine::errc::internal, what + " " + path + ": " + std::strerror(code)};
}

class descriptor {
 public:
  explicit descriptor(int fd) : fd_(fd) {}
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

/// 0 or an errno.
int write_all(int fd, const std::byte* data, std::uint64_t size, std::uint64_t offset) {
  while (size > 0) {
    const ssize_t n = ::pwrite(fd, data, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    data += n;
    size -= static_cast<std::uint64_t>(n);
    offset += static_cast<std::uint64_t>(n);
  }
  return 0;
}

/// Random blocks of one type and distribution.
using pool_key = std::tuple<engine::ggml_type, float, float>;

pool_key key_of(const planned_tensor& tensor) {
  return {tensor.type, tensor.centre, tensor.spread};
}

test::bytes make_pool(const pool_key& key, std::uint64_t seed) {
  const auto [type, centre, spread] = key;
  const auto& traits = engine::traits_of(type);
  std::mt19937_64 random(seed ^ (static_cast<std::uint64_t>(type) << 32U));
  const std::uint64_t elements = pool_bytes / traits.block_bytes * traits.block_elems;
  test::bytes out = test::random_payload(type, elements, spread, random);
  out.resize(out.size() - traits.trailer_bytes);
  if (centre != 0.0F) {
    for (std::size_t at = 0; at + sizeof(float) <= out.size(); at += sizeof(float)) {
      float value = 0.0F;
      std::memcpy(&value, out.data() + at, sizeof value);
      value += centre;
      std::memcpy(out.data() + at, &value, sizeof value);
    }
  }
  return out;
}

/// Some consecutive rows of one tensor.
struct piece {
  const planned_tensor* tensor;
  const test::bytes* pool;
  std::uint64_t rows;
  std::uint64_t offset;  ///< in the file
  std::uint64_t number;  ///< of the piece in the file; seeds its offsets into the pool
  bool last;             ///< of the tensor, whose trailer follows it
};

void stamp(const piece& p, std::uint64_t seed, test::bytes& out) {
  const auto& traits = engine::traits_of(p.tensor->type);
  const std::uint64_t row = engine::row_bytes(traits, p.tensor->extents[0]);
  ORCD_ENSURE(row <= p.pool->size());
  const std::uint64_t places = (p.pool->size() - row) / traits.block_bytes + 1;
  std::mt19937_64 random(seed * 0x9E3779B97F4A7C15ULL + p.number);
  out.resize(p.rows * row);
  for (std::uint64_t i = 0; i < p.rows; ++i) {
    std::memcpy(out.data() + i * row, p.pool->data() + random() % places * traits.block_bytes, row);
  }
  if (!p.last || traits.trailer_bytes == 0) return;
  test::append_number(out, p.tensor->spread);
  out.resize(p.rows * row + traits.trailer_bytes);
}

/// The complete header with the tensor table, padded to where the data begin.
test::bytes make_header(const planned_model& model) {
  test::gguf_writer writer = model.header;
  writer.faults.tensor_count = model.tensors.size();
  writer.faults.no_padding_at_end = true;
  test::bytes out = writer.build();
  std::uint64_t next = 0;
  for (const planned_tensor& tensor : model.tensors) {
    test::append_string(out, tensor.name);
    test::append_number(out, static_cast<std::uint32_t>(tensor.extents.size()));
    for (const std::uint64_t extent : tensor.extents) test::append_number(out, extent);
    test::append_number(out, static_cast<std::uint32_t>(tensor.type));
    test::append_number(out, next);
    next = aligned(next + tensor.bytes());
  }
  out.resize(aligned(out.size()));
  return out;
}

std::vector<piece> cut(const planned_model& model, const std::map<pool_key, test::bytes>& pools,
                       std::uint64_t& end) {
  std::vector<piece> out;
  for (const planned_tensor& tensor : model.tensors) {
    const engine::type_traits& traits = engine::traits_of(tensor.type);
    const std::uint64_t row = engine::row_bytes(traits, tensor.extents[0]);
    const std::uint64_t rows = (tensor.bytes() - traits.trailer_bytes) / row;
    const std::uint64_t most = std::max<std::uint64_t>(1, piece_bytes / row);
    for (std::uint64_t at = 0; at < rows; at += most) {
      out.push_back({&tensor, &pools.at(key_of(tensor)), std::min(most, rows - at), end + at * row,
                     out.size(), at + most >= rows});
    }
    end = aligned(end + tensor.bytes());
  }
  return out;
}

/// 0 or the first errno.
int write_pieces(int fd, const std::vector<piece>& pieces, std::uint64_t seed, unsigned threads) {
  std::atomic<std::size_t> next{0};
  std::atomic<int> failed{0};
  const auto work = [&] {
    test::bytes buffer;
    for (std::size_t i = next++; i < pieces.size() && failed == 0; i = next++) {
      stamp(pieces[i], seed, buffer);
      const int code = write_all(fd, buffer.data(), buffer.size(), pieces[i].offset);
      int none = 0;
      if (code != 0) failed.compare_exchange_strong(none, code);
    }
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return failed;
}

}  // namespace

engine::result<written_totals> write_stamped(const planned_model& model, std::uint64_t seed,
                                             const std::string& path) {
  std::map<pool_key, test::bytes> pools;
  for (const planned_tensor& tensor : model.tensors) {
    if (!pools.contains(key_of(tensor))) pools.emplace(key_of(tensor), make_pool(key_of(tensor), seed));
  }
  const test::bytes header = make_header(model);
  std::uint64_t end = header.size();
  const std::vector<piece> pieces = cut(model, pools, end);
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, threads_max);

  const std::string partial = path + ".partial";
  const auto give_up = [&](const char* what, int code) {
    ::unlink(partial.c_str());
    return failure(what, partial, code);
  };
  const descriptor file(::open(partial.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644));
  if (file.get() < 0) return failure("open", partial, errno);
  if (::ftruncate(file.get(), static_cast<off_t>(end)) != 0) return give_up("ftruncate", errno);
  if (const int code = write_all(file.get(), header.data(), header.size(), 0); code != 0)
    return give_up("write", code);
  if (const int code = write_pieces(file.get(), pieces, seed, threads); code != 0)
    return give_up("write", code);
  if (std::rename(partial.c_str(), path.c_str()) != 0) return give_up("rename", errno);
  return written_totals{end, threads};
}

}  // namespace orcd::bench
