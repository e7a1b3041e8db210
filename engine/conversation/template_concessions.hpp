// What is given up of a conversation where a chat template refuses it: published templates raise errors for
// what every client sends. Each concession is one that other servers make, too. Pure. Source: llama.cpp's
// common/chat.cpp (system role, undefined tools), transformers' templates.
#pragma once

#include <boost/json/object.hpp>
#include <span>

namespace orcd::engine {

/// Changes a template's variables (messages, tools, ...); false where there is nothing to change.
using template_concession = bool (*)(boost::json::object& variables);

/// In the order in which they are tried, each on top of those before that helped.
[[nodiscard]] std::span<const template_concession> template_concessions() noexcept;

/// The one of them for templates without a system role: its text stands in front of the first user message.
[[nodiscard]] bool concede_system_role(boost::json::object& variables);

}  // namespace orcd::engine
