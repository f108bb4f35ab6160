/* `cblas_sgemm` under its own name, for a BLAS whose functions have prefixes: see openblas.py.
 *
 * Plain C that needs no other library, so the glibc of the machine that compiles it does not matter.
 */

typedef void sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                   const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

sgemm *proxy_engine_sgemm;

void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    proxy_engine_sgemm(order, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c,
                       ldc);
}
