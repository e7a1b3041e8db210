// ORCD_HD marks a function that host and device code call alike; for a compiler without CUDA it says nothing.
#pragma once

#ifdef __CUDACC__
#define ORCD_HD __host__ __device__
#else
#define ORCD_HD
#endif
