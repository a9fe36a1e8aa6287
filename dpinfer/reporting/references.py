"""The literature that methods paragraphs cite, and citations that keep a list of it."""

from __future__ import annotations

__all__ = ["REFERENCES", "Citations"]

_LISTED = """
aitken1935: Aitken, 1935
  Aitken, A. C. (1935). On least squares and linear combination of observations. Proceedings of the Royal Society of
  Edinburgh 55, 42-48.
anderson1949: Anderson & Rubin, 1949
  Anderson, T. W. & Rubin, H. (1949). Estimation of the parameters of a single equation in a complete system of
  stochastic equations. Annals of Mathematical Statistics 20(1), 46-63.
avella2023: Avella-Medina et al., 2023
  Avella-Medina, M., Bradshaw, C. & Loh, P.-L. (2023). Differentially private inference via noisy optimization.
  Annals of Statistics 51(5), 2067-2092.
awan2018: Awan & Slavkovic, 2018
  Awan, J. & Slavkovic, A. (2018). Differentially private uniformly most powerful tests for binomial data. Advances
  in Neural Information Processing Systems 31.
bernstein2018: Bernstein & Sheldon, 2018
  Bernstein, G. & Sheldon, D. (2018). Differentially private Bayesian inference for exponential families. Advances
  in Neural Information Processing Systems 31.
bernstein2019: Bernstein & Sheldon, 2019
  Bernstein, G. & Sheldon, D. (2019). Differentially private Bayesian linear regression. Advances in Neural
  Information Processing Systems 32.
besag1991: Besag & Clifford, 1991
  Besag, J. & Clifford, P. (1991). Sequential Monte Carlo p-values. Biometrika 78(2), 301-304.
brawner2018: Brawner & Honaker, 2018
  Brawner, T. & Honaker, J. (2018). Bootstrap inference and differential privacy: standard errors for free.
  Manuscript.
bun2016: Bun & Steinke, 2016
  Bun, M. & Steinke, T. (2016). Concentrated differential privacy: simplifications, extensions, and lower bounds.
  Theory of Cryptography, 635-658.
canonne2020: Canonne et al., 2020
  Canonne, C. L., Kamath, G. & Steinke, T. (2020). The discrete Gaussian for differential privacy. Advances in
  Neural Information Processing Systems 33.
cantoni2001: Cantoni & Ronchetti, 2001
  Cantoni, E. & Ronchetti, E. (2001). Robust inference for generalized linear models. Journal of the American
  Statistical Association 96(455), 1022-1030.
couch2019: Couch et al., 2019
  Couch, S., Kazan, Z., Shi, K., Bray, A. & Groce, A. (2019). Differentially private nonparametric hypothesis
  testing. ACM Conference on Computer and Communications Security, 737-751.
dong2022: Dong et al., 2022
  Dong, J., Roth, A. & Su, W. J. (2022). Gaussian differential privacy. Journal of the Royal Statistical Society B
  84(1), 3-37.
drechsler2022: Drechsler et al., 2022
  Drechsler, J., Globus-Harris, I., McMillan, A., Sarathy, J. & Smith, A. (2022). Nonparametric differentially
  private confidence intervals for the median. Journal of Survey Statistics and Methodology 10(3), 804-829.
dwork2006: Dwork et al., 2006a
  Dwork, C., McSherry, F., Nissim, K. & Smith, A. (2006a). Calibrating noise to sensitivity in private data
  analysis. Theory of Cryptography, 265-284.
dwork2006b: Dwork et al., 2006b
  Dwork, C., Kenthapadi, K., McSherry, F., Mironov, I. & Naor, M. (2006b). Our data, ourselves: privacy via
  distributed noise generation. Advances in Cryptology - EUROCRYPT, 486-503.
ferrando2022: Ferrando et al., 2022
  Ferrando, C., Wang, S. & Sheldon, D. (2022). Parametric bootstrap for differentially private confidence intervals.
  International Conference on Artificial Intelligence and Statistics.
fieller1954: Fieller, 1954
  Fieller, E. C. (1954). Some problems in interval estimation. Journal of the Royal Statistical Society B 16(2),
  175-185.
fienberg2012: Fienberg & Rinaldo, 2012
  Fienberg, S. E. & Rinaldo, A. (2012). Maximum likelihood estimation in log-linear models. Annals of Statistics
  40(2), 996-1023.
gaboardi2016: Gaboardi et al., 2016
  Gaboardi, M., Lim, H., Rogers, R. & Vadhan, S. (2016). Differentially private chi-squared hypothesis testing:
  goodness of fit and independence testing. International Conference on Machine Learning, 2111-2120.
ghosh2012: Ghosh et al., 2012
  Ghosh, A., Roughgarden, T. & Sundararajan, M. (2012). Universally utility-maximizing privacy mechanisms. SIAM
  Journal on Computing 41(6), 1673-1693.
haberman1974: Haberman, 1974
  Haberman, S. J. (1974). The Analysis of Frequency Data. University of Chicago Press.
hay2010: Hay et al., 2010
  Hay, M., Rastogi, V., Miklau, G. & Suciu, D. (2010). Boosting the accuracy of differentially private histograms
  through consistency. Proceedings of the VLDB Endowment 3(1), 1021-1032.
he2023: He et al., 2023
  He, X., Pan, X., Tan, K. M. & Zhou, W.-X. (2023). Smoothed quantile regression with large-scale inference. Journal
  of Econometrics 232(2), 367-388.
huber1964: Huber, 1964
  Huber, P. J. (1964). Robust estimation of a location parameter. Annals of Mathematical Statistics 35(1), 73-101.
huber1967: Huber, 1967
  Huber, P. J. (1967). The behavior of maximum likelihood estimates under nonstandard conditions. Fifth Berkeley
  Symposium on Mathematical Statistics and Probability 1, 221-233.
kifer2017: Kifer & Rogers, 2017
  Kifer, D. & Rogers, R. (2017). A new class of private chi-square hypothesis tests. International Conference on
  Artificial Intelligence and Statistics, 991-1000.
li2010: Li et al., 2010
  Li, C., Hay, M., Rastogi, V., Miklau, G. & McGregor, A. (2010). Optimizing linear counting queries under
  differential privacy. ACM Symposium on Principles of Database Systems, 123-134.
lyu2017: Lyu et al., 2017
  Lyu, M., Su, D. & Li, N. (2017). Understanding the sparse vector technique for differential privacy. Proceedings
  of the VLDB Endowment 10(6), 637-648.
mckenna2020: McKenna & Sheldon, 2020
  McKenna, R. & Sheldon, D. (2020). Permute-and-flip: a new mechanism for differentially private selection. Advances
  in Neural Information Processing Systems 33.
mcsherry2007: McSherry & Talwar, 2007
  McSherry, F. & Talwar, K. (2007). Mechanism design via differential privacy. IEEE Symposium on Foundations of
  Computer Science, 94-103.
nissim2007: Nissim et al., 2007
  Nissim, K., Raskhodnikova, S. & Smith, A. (2007). Smooth sensitivity and sampling in private data analysis. ACM
  Symposium on Theory of Computing, 75-84.
rao1948: Rao, 1948
  Rao, C. R. (1948). Large sample tests of statistical hypotheses concerning several parameters with applications to
  problems of estimation. Mathematical Proceedings of the Cambridge Philosophical Society 44(1), 50-57.
rogers2016: Rogers et al., 2016
  Rogers, R., Roth, A., Ullman, J. & Vadhan, S. (2016). Privacy odometers and filters: pay-as-you-go composition.
  Advances in Neural Information Processing Systems 29.
seabold2010: Seabold & Perktold, 2010
  Seabold, S. & Perktold, J. (2010). Statsmodels: econometric and statistical modeling with Python. Proceedings of
  the 9th Python in Science Conference, 92-96.
sheffet2017: Sheffet, 2017
  Sheffet, O. (2017). Differentially private ordinary least squares. International Conference on Machine Learning,
  3105-3114.
smith2011: Smith, 2011
  Smith, A. (2011). Privacy-preserving statistical estimation with optimal convergence rates. ACM Symposium on
  Theory of Computing, 813-822.
stevens1950: Stevens, 1950
  Stevens, W. L. (1950). Fiducial limits of the parameter of a discontinuous distribution. Biometrika 37, 117-129.
tobin1958: Tobin, 1958
  Tobin, J. (1958). Estimation of relationships for limited dependent variables. Econometrica 26(1), 24-36.
vu2009: Vu & Slavkovic, 2009
  Vu, D. & Slavkovic, A. (2009). Differential privacy for clinical trial data: preliminary evaluations. IEEE
  International Conference on Data Mining Workshops, 138-143.
wasserman2010: Wasserman & Zhou, 2010
  Wasserman, L. & Zhou, S. (2010). A statistical framework for differential privacy. Journal of the American
  Statistical Association 105(489), 375-389.
white1980: White, 1980
  White, H. (1980). A heteroskedasticity-consistent covariance matrix estimator and a direct test for
  heteroskedasticity. Econometrica 48(4), 817-838.
wilson1927: Wilson, 1927
  Wilson, E. B. (1927). Probable inference, the law of succession, and statistical inference. Journal of the
  American Statistical Association 22(158), 209-212.
xiao2023: Xiao et al., 2023
  Xiao, Y., He, G., Zhang, D. & Kifer, D. (2023). An optimal and scalable matrix mechanism for noisy marginals under
  convex loss functions. Advances in Neural Information Processing Systems 36.
"""


def _read(text: str) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for line in text.strip().splitlines():
        if line.startswith(" "):
            key = next(reversed(found))
            short, whole = found[key]
            found[key] = (short, f"{whole} {line.strip()}".strip())
        else:
            key, short = line.split(": ", 1)
            found[key] = (short, "")
    return found


REFERENCES = _read(_LISTED)
"""How a text cites a work, and how the list names it, by key."""


class Citations:
    """Cites works, and knows which were cited."""

    def __init__(self) -> None:
        self._cited: set[str] = set()

    def __call__(self, *keys: str) -> str:
        """Return works as a text cites them, without brackets."""
        self._cited.update(keys)
        return "; ".join(REFERENCES[key][0] for key in keys)

    @property
    def listed(self) -> list[str]:
        """All works that were cited, in alphabetical order."""
        return sorted(REFERENCES[key][1] for key in self._cited)
