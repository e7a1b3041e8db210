#include "net/status/picture_metrics.hpp"

#include <utility>

#include "net/status/metrics_text.hpp"

namespace orcd::net {

std::string render_picture_metrics(const engine::decoder_counts& counts) {
  metrics_text out;
  out.family("worker_pictures_total", "counter", "Pictures that went to the decoder, by what came of it")
      .sample(static_cast<double>(counts.decoded), {{"result", "decoded"}})
      .sample(static_cast<double>(counts.failed), {{"result", "refused"}})
      .sample(static_cast<double>(counts.crashed), {{"result", "crashed"}});
  out.family("worker_decoder_restarts_total", "counter",
             "Times that the decoder of pictures was started again")
      .sample(static_cast<double>(counts.restarts));
  return std::move(out).take();
}

}  // namespace orcd::net
