#include "net/status/media_metrics.hpp"

#include <utility>

#include "net/status/metrics_text.hpp"

namespace orcd::net {
namespace {

void add(metrics_text& out, const char* name, const char* help, const engine::decoded_files& counts) {
  out.family(name, "counter", help)
      .sample(static_cast<double>(counts.decoded), {{"result", "decoded"}})
      .sample(static_cast<double>(counts.failed), {{"result", "refused"}})
      .sample(static_cast<double>(counts.crashed), {{"result", "crashed"}});
}

}  // namespace

std::string render_media_metrics(const engine::decoder_counts& counts) {
  metrics_text out;
  add(out, "worker_pictures_total", "Pictures that went to the decoder, by what came of it", counts.pictures);
  add(out, "worker_sounds_total", "Sounds that went to the decoder, by what came of it", counts.sounds);
  out.family("worker_decoder_restarts_total", "counter",
             "Times that the decoder of pictures and sounds was started again")
      .sample(static_cast<double>(counts.restarts));
  return std::move(out).take();
}

}  // namespace orcd::net
