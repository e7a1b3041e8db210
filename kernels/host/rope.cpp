#include "kernels/host/rope.hpp"

#include "kernels/host/sine.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::kernels::host {
namespace {

void rotate_head(const rope_args& args, float* head, const float* cosines, const float* sines) {
  const std::uint32_t step = args.interleaved ? 2 : 1;
  const std::uint32_t other = args.interleaved ? 1 : args.pairs;
  for (std::uint32_t i = 0; i < args.pairs; ++i) {
    const float x0 = head[i * step];
    const float x1 = head[i * step + other];
    head[i * step] = x0 * cosines[i] - x1 * sines[i];
    head[i * step + other] = x0 * sines[i] + x1 * cosines[i];
  }
}

}  // namespace

void rope_angles(const rope_angles_args& args, thread_pool& pool) {
  pool.run(args.columns, 4, [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t c = begin; c < end; ++c) {
      for (std::uint32_t i = 0; i < args.pairs; ++i) {
        const std::size_t axis = args.axes == nullptr ? 0 : args.axes[i];
        const std::uint32_t position = args.positions[axis * args.axis_stride + c];
        const sine_cosine at =
            sine_and_cosine(static_cast<double>(position) * static_cast<double>(args.inv_freq[i]));
        args.cosines[std::size_t{c} * args.pairs + i] = static_cast<float>(at.cosine) * args.magnitude;
        args.sines[std::size_t{c} * args.pairs + i] = static_cast<float>(at.sine) * args.magnitude;
      }
    }
  });
}

void rope(const rope_args& args, thread_pool& pool) {
  pool.run(args.columns, 4, [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t c = begin; c < end; ++c) {
      for (std::uint32_t head = 0; head < args.heads; ++head) {
        rotate_head(args, args.x + c * args.x_stride + std::size_t{head} * args.head_width,
                    args.cosines + std::size_t{c} * args.pairs, args.sines + std::size_t{c} * args.pairs);
      }
    }
  });
}

}  // namespace orcd::kernels::host
