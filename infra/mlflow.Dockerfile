# The version of requirements/lock.txt, with the PostgreSQL driver.
FROM python:3.11-slim
RUN pip install --no-cache-dir mlflow==3.17.2 psycopg2-binary
