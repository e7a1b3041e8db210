// Writes a planned file: in pieces of rows, by two threads, so that memory does not depend on the model.
#pragma once

#include <cstdint>
#include <functional>

#include "app/quantize/image_plan.hpp"
#include "app/quantize/output_file.hpp"

namespace orcd::app {

/// Told how many source bytes are done; of any thread, one at a time.
using progress_sink = std::function<void(std::uint64_t bytes)>;

/// Fills `to`. Errors: a value that is not finite, a code that is none, what the system says of the file.
[[nodiscard]] engine::result<void> write_image(image_plan& plan, output_file& to, const progress_sink& done);

}  // namespace orcd::app
