// One frame in or out of a socket, without waiting. For sockets that do not block.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "net/failover/file_descriptor.hpp"
#include "net/failover/holder_frames.hpp"

namespace orcd::net {

struct received_frame {
  numbered_frame what{};
  std::vector<file_descriptor> descriptors{};  ///< as many as descriptors_of() says
};

/// The next frame; nullopt where none has come yet. Errors: not_ready when the other side has closed the
/// connection, invalid_request when it has broken a rule; there is no going on after either.
[[nodiscard]] engine::result<std::optional<received_frame>> receive_frame(int socket);

/// later: the other side does not read, or the kernel is short of something; never: errno says why.
enum class sent { yes, later, never };
/// Of a connection that is over it says yes: whoever reads finds the end, behind what was still sent.
[[nodiscard]] sent send_packet(int socket, const std::string& bytes,
                               std::span<const int> descriptors) noexcept;

}  // namespace orcd::net
