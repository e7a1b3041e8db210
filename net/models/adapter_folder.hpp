// The folder from which clients may have adapters loaded. Any thread; touches the file system.
#pragma once

#include <string>

#include "engine/base/error.hpp"

namespace orcd::net {

/// Where `asked` really lies: a file, or the directory of a PEFT adapter; a relative path is one in `folder`.
/// Links and ".." count for where they lead, those within a directory too. Errors: forbidden, of what lies
/// elsewhere, whether it exists or not, and of what cannot be followed; not_found; invalid_request. The param
/// is "lora_path". Whoever may write below the folder can change what lies there afterwards: see
/// check_opened().
[[nodiscard]] engine::result<std::string> adapter_in_folder(const std::string& folder,
                                                            const std::string& asked);

/// Whether an open file lies in the folder, whatever the name that it was opened by leads to by now. Error:
/// forbidden, with param "lora_path".
[[nodiscard]] engine::result<void> check_opened(const std::string& folder, int descriptor);

}  // namespace orcd::net
