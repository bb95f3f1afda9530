"""Read and write networks, releases and models; the home of pgmpy and BIF."""
