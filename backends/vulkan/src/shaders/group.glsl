// Sums and extrema over a workgroup of any size and any subgroup size. All invocations call, all get the result.
#define MOST_SUBGROUPS 128
shared float group_part[MOST_SUBGROUPS];

#define GROUP_REDUCTION(name, combine_subgroup, combine, neutral)                    \
  float name(float x) {                                                              \
    x = combine_subgroup(x);                                                         \
    if (gl_NumSubgroups == 1u) return x;                                             \
    if (subgroupElect()) group_part[gl_SubgroupID] = x;                              \
    barrier();                                                                       \
    float r = neutral;                                                               \
    for (uint s = 0u; s < gl_NumSubgroups; ++s) r = combine(r, group_part[s]);       \
    barrier();                                                                       \
    return r;                                                                        \
  }
float plus(float a, float b) { return a + b; }
float larger(float a, float b) { return a > b ? a : b; }
GROUP_REDUCTION(group_sum, subgroupAdd, plus, 0.0)
GROUP_REDUCTION(group_max, subgroupMax, larger, -INFINITY)
