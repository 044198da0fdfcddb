// SPDX-License-Identifier: Apache-2.0
// The formatting library fmt, compiled here once. Files that format only include its headers, which is quick, and
// neither the plugins nor the programs need libfmt.so: Slurm's daemons load no new library.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// fmt's headers declare these templates and expect one source file to instantiate them, as fmt's own src/format.cc
// does.
template FMT_API auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API void buffer<char>::append(const char*, const char*);
#if FMT_VERSION < 90000
template FMT_API int snprintf_float(double, int, float_specs, buffer<char>&);
template FMT_API int snprintf_float(long double, int, float_specs, buffer<char>&);
template FMT_API int format_float(double, int, float_specs, buffer<char>&);
template FMT_API int format_float(long double, int, float_specs, buffer<char>&);
#endif
#if FMT_VERSION < 100000
template FMT_API void vformat_to(buffer<char>&, string_view, basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
#elif FMT_VERSION < 120000  // from fmt 12 on, vformat_to() is no template
template FMT_API void vformat_to(buffer<char>&, string_view, vformat_args<>::type, locale_ref);
#endif

}  // namespace detail
FMT_END_NAMESPACE
