// Arbitrary packets as frames of the holder's socket, with any number of descriptors beside them: what is
// taken is what would be written. The first byte is the number of descriptors.
#include "net/failover/holder_frames.hpp"

#include <cstddef>
#include <cstdint>

#include "engine/base/ensure.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace orcd::net;
  if (size == 0) return 0;
  const std::span<const std::byte> packet(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const auto taken = decode_frame(packet, data[0]);
  if (!taken) return 0;
  const std::string again = encode_frame(*taken);
  ORCD_ENSURE(again == std::string(reinterpret_cast<const char*>(packet.data()), packet.size()));
  return 0;
}
