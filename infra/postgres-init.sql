-- Run once, when the volume is new: Prefect's database is made by POSTGRES_DB, this is the second one.
CREATE DATABASE mlflow OWNER birdrl;
