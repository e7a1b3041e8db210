// The name that sockets and the holder use for an owned descriptor.
#pragma once

#include "engine/base/file_descriptor.hpp"

namespace orcd::net {

using engine::file_descriptor;

}  // namespace orcd::net
