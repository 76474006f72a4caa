/* Given with -include when mlx-c is compiled: what compilers before C++23's library lack. */
#ifdef __cplusplus
#include <sstream>
#include <string>
#include <version>
#ifndef __cpp_lib_format
namespace std {
inline void parity_put(ostringstream& out, const char* rest) { out << rest; }
template <class First, class... Others>
void parity_put(ostringstream& out, const char* rest, const First& first, const Others&... others) {
  for (; *rest != '\0'; ++rest) {
    if (rest[0] == '{' && rest[1] == '}') {
      out << first;
      return parity_put(out, rest + 2, others...);
    }
    out << *rest;
  }
}
/* mlx-c formats a few error texts, all with plain {}. */
template <class... Values>
string format(const char* text, const Values&... values) {
  ostringstream out;
  parity_put(out, text, values...);
  return out.str();
}
} // namespace std
#endif
#endif
