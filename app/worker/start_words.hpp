// What the log says of a start, step by step. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "app/model/model_setup.hpp"
#include "app/options/options.hpp"
#include "engine/accelerator.hpp"
#include "engine/base/narration.hpp"
#include "engine/worker_state.hpp"

namespace orcd::app {

void narrate_begin(engine::narrator& narrator, const options& opts);

/// One line, whatever the reason.
void narrate_failure(engine::narrator& narrator, const options& opts, const start_failure& failure);

/// What holds for requests that do not say it, where it is not what the API says anyway; and what of the
/// file's recommendation, or of the operator's variables, means nothing here. `chat` null: there are no
/// chats.
void narrate_sampling(engine::narrator& narrator, const options& opts, const engine::chat_format* chat,
                      const engine::file_sampling& of_file, const engine::sampling_defaults& settled);

/// The model is on the device, after `load_ms`.
void narrate_loaded(engine::narrator& narrator, const engine::worker_state& state,
                    const engine::worker_identity& identity, const engine::memory_plan& plan, double load_ms);

/// How windowed layers keep their pages, where they have some of their own, and whether the budget was of
/// use.
void narrate_groups(engine::narrator& narrator, const engine::kv_geometry& geometry,
                    const engine::boundary_budget& budget);

/// `start_ms`: since the process began.
void narrate_ready(engine::narrator& narrator, const engine::worker_identity& identity,
                   std::uint64_t vram_bytes, const std::string& uri, std::uint16_t port, double start_ms);

}  // namespace orcd::app
