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

std::string render_media_metrics(const engine::decoder_counts& counts, const engine::media_state& media) {
  metrics_text out;
  add(out, "worker_pictures_total", "Pictures that went to the decoder, by what came of it", counts.pictures);
  add(out, "worker_sounds_total", "Sounds that went to the decoder, by what came of it", counts.sounds);
  out.family("worker_decoder_restarts_total", "counter",
             "Times that the decoder of pictures and sounds was started again")
      .sample(static_cast<double>(counts.restarts));
  out.family("worker_media_encoded_total", "counter", "Pictures and sounds that the projector made rows of")
      .sample(static_cast<double>(media.encoded));
  out.family("worker_media_encode_seconds_total", "counter", "Seconds that this took")
      .sample(media.encode_seconds);
  out.family("worker_media_store_hits_total", "counter", "Pictures and sounds whose rows were still there")
      .sample(static_cast<double>(media.hits));
  out.family("worker_media_stored", "gauge", "Pictures and sounds whose rows are there")
      .sample(static_cast<double>(media.stored));
  return std::move(out).take();
}

}  // namespace orcd::net
