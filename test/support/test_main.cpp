#define BOOST_TEST_MODULE worker_orcd
#include <boost/test/unit_test.hpp>
