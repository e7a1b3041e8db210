#include "kernels/host/embed.hpp"

#include "kernels/host/matmul.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::kernels::host {

void embed(const embed_args& args, thread_pool& pool) {
  pool.run(args.columns, 4, [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t c = begin; c < end; ++c) {
      dequantize_row(args.table, static_cast<std::uint64_t>(args.tokens[c]),
                     args.out + std::size_t{c} * args.table.cols);
    }
  });
}

}  // namespace orcd::kernels::host
